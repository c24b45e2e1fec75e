/** Actions on a whole chat (archive, fork, compact, export), from its menu or the composer. */

import { useEffect, useRef } from "react";
import { withDownloadKey } from "../api/download";
import { currentUser } from "../api/request";
import { PREFIX } from "../api/schema";
import type { ChatList } from "../store/chat-list";
import type { OpenChat } from "../store/open-chat";
import { deferredNavigation } from "../ui/deferred-navigation";
import { attempt, notify } from "../ui/notices";

/** Commands that open a part of the chat's head. */
export type HeadCommand = "model" | "effort" | "rename" | "delete";
export type Command = HeadCommand | "archive" | "fork" | "compact" | "retitle";

interface CommandRequest {
  readonly chat: string;
  readonly name: Command;
}

const EVENT = "holdfast:command";

/** Requests a command from elsewhere on the page; the head of the chat runs it. */
export function requestCommand(chat: string, name: Command): void {
  dispatchEvent(new CustomEvent<CommandRequest>(EVENT, { detail: { chat, name } }));
}

export function useChatCommands(
  chat: OpenChat,
  list: ChatList,
  mine: boolean,
  onOpen: (command: HeadCommand) => void,
): void {
  const run = useRef((_: Command) => {});
  useEffect(() => {
    run.current = (name) => {
      if (!mine) notify("This chat is read-only.", true);
      else void runChatCommand(name, chat, list, onOpen);
    };
  });
  useEffect(() => {
    const onRequest = (event: Event) => {
      const { name, chat: id } = (event as CustomEvent<CommandRequest>).detail;
      if (id === chat.id) run.current(name);
    };
    addEventListener(EVENT, onRequest);
    return () => removeEventListener(EVENT, onRequest);
  }, [chat]);
}

export async function runChatCommand(
  name: Command,
  chat: OpenChat,
  list: ChatList,
  onOpen: (command: HeadCommand) => void,
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
      onOpen(name);
  }
}

/** Forks the whole chat. */
async function fork(chat: OpenChat): Promise<void> {
  const last = chat.transcript.get().messages.at(-1);
  if (last === undefined) return notify("There is nothing to fork yet.");
  const arrive = deferredNavigation();
  const forked = await chat.fork(last.number);
  arrive(`/chats/${encodeURIComponent(forked.id)}`, "Fork created.");
}

export function exportTo(id: string, format: "markdown" | "jsonl"): void {
  const link = document.createElement("a");
  const address = `${PREFIX}/chats/${encodeURIComponent(id)}/export?format=${format}`;
  link.href = withDownloadKey(address, currentUser.get()?.download_key);
  link.download = "";
  link.click();
}
