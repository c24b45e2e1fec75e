/** Sends unsent messages of chats that are no longer open. */

import type { StreamState } from "../api/event-stream";
import { storedNames } from "../reactive/local-storage";
import { Store } from "../reactive/store";
import { OUTBOX_PREFIX, Outbox } from "./outbox";

/** Chats open on this page, which send their own messages. */
const open = new Store<ReadonlySet<string>>(new Set());

export function chatOpened(chat: string): void {
  open.change((all) => new Set([...all, chat]));
}

export function chatClosed(chat: string): void {
  open.change((all) => new Set([...all].filter((each) => each !== chat)));
}

/** Sends messages of closed chats whenever the server is reachable. Returns a stop function. */
export function sendInBackground(line: Store<StreamState>): () => void {
  const sending = new Map<string, Outbox>();
  const sync = () => {
    for (const [chat, outbox] of [...sending]) {
      // A finished outbox does not know messages that other tabs have stored since.
      if (open.get().has(chat) || outbox.isDone) end(sending, chat);
    }
    if (line.get().is !== "open") return;
    for (const chat of chatsWithUnsent()) {
      if (open.get().has(chat) || sending.has(chat)) continue;
      const outbox = new Outbox(chat);
      sending.set(chat, outbox);
      outbox.open(line);
    }
  };
  const stops = [line.subscribe(sync), open.subscribe(sync)];
  sync();
  return () => {
    for (const stop of stops) stop();
    for (const chat of [...sending.keys()]) end(sending, chat);
  };
}

function end(sending: Map<string, Outbox>, chat: string): void {
  sending.get(chat)?.close();
  sending.delete(chat);
}

function chatsWithUnsent(): ReadonlySet<string> {
  const names = storedNames(OUTBOX_PREFIX).map((name) => name.slice(OUTBOX_PREFIX.length));
  return new Set(names.map((name) => name.slice(0, name.lastIndexOf("."))));
}
