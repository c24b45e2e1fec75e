/** Earlier messages of this chat, for recall with the arrow keys. Pure. */

import type { Stored } from "../api/types";
import { messageText } from "../store/message-text";

const LIMIT = 500;

/** Texts of earlier prompts, the newest first, without repetitions in a row. */
export function earlierPrompts(messages: readonly Stored[]): readonly string[] {
  const texts: string[] = [];
  for (const { message } of messages.toReversed()) {
    if (message.kind !== "prompt" || message.visibility === "model") continue;
    const text = messageText(message.parts).trim();
    if (text !== "" && text !== texts.at(-1)) texts.push(text);
    if (texts.length === LIMIT) break;
  }
  return texts;
}

/** The index of the prompt to show next; null for the draft itself. */
export function nextIndex(at: number | null, by: "back" | "forth", count: number): number | null {
  if (by === "forth") return at === null || at === 0 ? null : at - 1;
  const next = at === null ? 0 : at + 1;
  return next < count ? next : at;
}
