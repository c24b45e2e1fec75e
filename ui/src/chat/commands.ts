/** What can be done to a whole chat, from its menu or from the composer. */

import { useEffect, useRef } from "react";
import { PREFIX } from "../api/schema";
import { fromHere } from "../parts/leaving";
import { attempt, notify } from "../parts/notices";
import type { OpenChat } from "../store/chat";
import type { ChatList } from "../store/chats";

/** What the head itself has to open. */
export type Asked = "model" | "effort" | "rename" | "delete";
export type Command = Asked | "archive" | "fork" | "compact";

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
      if (!mine) notify("This chat can be read, and not changed.", true);
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
  const arrive = fromHere();
  const made = await chat.fork(last.number);
  arrive(`/chats/${encodeURIComponent(made.id)}`, "The fork is made.");
}

export function exportTo(id: string, format: "markdown" | "jsonl"): void {
  const link = document.createElement("a");
  link.href = `${PREFIX}/chats/${encodeURIComponent(id)}/export?format=${format}`;
  link.download = "";
  link.click();
}
