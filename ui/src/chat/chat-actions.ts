/** Actions on a whole chat (archive, fork, compact, export), from its menu or the composer. */

import { useEffect, useRef } from "react";
import { withDownloadKey } from "../api/download";
import { caller } from "../api/request";
import { PREFIX } from "../api/schema";
import type { ChatList } from "../store/chat-list";
import type { OpenChat } from "../store/open-chat";
import { deferredNavigation } from "../ui/deferred-navigation";
import { attempt, notify } from "../ui/notices";

/** What the head itself has to open. */
export type Asked = "model" | "effort" | "rename" | "delete";
export type Command = Asked | "archive" | "fork" | "compact" | "retitle";

interface Wish {
  readonly chat: string;
  readonly name: Command;
}

const EVENT = "holdfast:command";

/** From elsewhere on the page: carried out by the head of the chat, which has what it takes. */
export function ask(chat: string, name: Command): void {
  dispatchEvent(new CustomEvent<Wish>(EVENT, { detail: { chat, name } }));
}

export function useCommands(
  chat: OpenChat,
  list: ChatList,
  mine: boolean,
  onAsk: (asked: Asked) => void,
): void {
  const run = useRef((_: Command) => {});
  useEffect(() => {
    run.current = (name) => {
      if (!mine) notify("This chat is read-only.", true);
      else void carryOut(name, chat, list, onAsk);
    };
  });
  useEffect(() => {
    const heard = (event: Event) => {
      const { name, chat: id } = (event as CustomEvent<Wish>).detail;
      if (id === chat.id) run.current(name);
    };
    addEventListener(EVENT, heard);
    return () => removeEventListener(EVENT, heard);
  }, [chat]);
}

export async function carryOut(
  name: Command,
  chat: OpenChat,
  list: ChatList,
  onAsk: (asked: Asked) => void,
): Promise<void> {
  switch (name) {
    case "archive":
      await attempt(() => list.change(chat.id, { archived: true }));
      return;
    case "compact":
      await attempt(() => chat.compact());
      return;
    case "retitle":
      await attempt(() => chat.retitle());
      return;
    case "fork":
      await attempt(() => fork(chat));
      return;
    default:
      onAsk(name);
  }
}

/** The whole chat as it is now. */
async function fork(chat: OpenChat): Promise<void> {
  const last = chat.transcript.get().messages.at(-1);
  if (last === undefined) return notify("There is nothing to fork yet.");
  const arrive = deferredNavigation();
  const made = await chat.fork(last.number);
  arrive(`/chats/${encodeURIComponent(made.id)}`, "Fork created.");
}

export function exportTo(id: string, format: "markdown" | "jsonl"): void {
  const link = document.createElement("a");
  const address = `${PREFIX}/chats/${encodeURIComponent(id)}/export?format=${format}`;
  link.href = withDownloadKey(address, caller.get()?.download_key);
  link.download = "";
  link.click();
}
