/** Hook: arrow up in an empty composer recalls earlier messages. */

import { type KeyboardEvent, type RefObject, useRef } from "react";
import type { OpenChat } from "../store/open-chat";
import type { Draft } from "./draft";
import { earlierPrompts, nextIndex } from "./input-history";

/** Recalls earlier prompts with the arrow keys, starting from an empty composer. */
export function useInputHistory(
  chat: OpenChat,
  draft: Draft,
  field: RefObject<HTMLTextAreaElement | null>,
) {
  /** Index of the recalled message; reset once it is edited. */
  const recalled = useRef<{ at: number; text: string } | null>(null);
  const show = (at: number | null, texts: readonly string[]) => {
    const text = at === null ? "" : (texts[at] ?? "");
    recalled.current = at === null ? null : { at, text };
    draft.type(text);
    // Once it is drawn.
    requestAnimationFrame(() => field.current?.setSelectionRange(text.length, text.length));
  };
  const press = (event: KeyboardEvent): boolean => {
    const { text } = draft.content.get();
    const now = recalled.current?.text === text ? recalled.current.at : null;
    if (event.shiftKey || event.altKey || event.ctrlKey || event.metaKey) return false;
    if (now === null && (text !== "" || event.key !== "ArrowUp")) return false;
    if (!["ArrowUp", "ArrowDown", "Escape"].includes(event.key)) return false;
    const texts = earlierPrompts(chat.transcript.get().messages);
    if (texts.length === 0) return false;
    event.preventDefault();
    const by = event.key === "ArrowUp" ? "back" : "forth";
    show(event.key === "Escape" ? null : nextIndex(now, by, texts.length), texts);
    // Loads earlier messages for the next key press.
    if (by === "back" && now === texts.length - 1) void chat.readEarlier();
    return true;
  };
  return { press };
}
