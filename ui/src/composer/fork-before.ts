/** Forks a chat before a message, with that message as the draft of the fork. */

import { IdempotencyKeys } from "../api/idempotency-key";
import { call } from "../api/request";
import type { Stored } from "../api/types";
import { draftNamed } from "./draft";
import { contentOf } from "./draft-content";

const keys = new IdempotencyKeys();

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
  draftNamed(id ?? "new").prepend(contentOf(message));
  return id === null ? "/new" : `/chats/${id}`;
}

/** Retried after a lost response, it is the same fork. */
async function forkAt(chat: string, number: number): Promise<string> {
  const body = { number };
  const key = keys.for([chat, number]);
  const { id } = await call("POST /chats/{chat}/fork", { path: { chat }, body, key });
  keys.done();
  return id;
}
