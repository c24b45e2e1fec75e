import { call } from "../api/call";
import type { Stored } from "../api/types";
import { draftNamed } from "./draft";
import { contentOf } from "./prompt";

/**
 * A chat of its own that ends before a message, which is there to be changed and sent; where it is.
 * Before the first message there is nothing to copy: that is a new chat.
 */
export async function forkBefore(chat: string, { number, message }: Stored): Promise<string> {
  // The server's word: this page may not have read what is before.
  const page = await call("GET /chats/{chat}/messages", {
    path: { chat },
    query: { before: number, limit: 1 },
  });
  const last = page.messages.at(-1)?.number;
  const id = last === undefined ? null : await forkAt(chat, last);
  draftNamed(id ?? "new").giveBack(contentOf(message));
  return id === null ? "/new" : `/chats/${id}`;
}

async function forkAt(chat: string, number: number): Promise<string> {
  return (await call("POST /chats/{chat}/fork", { path: { chat }, body: { number } })).id;
}
