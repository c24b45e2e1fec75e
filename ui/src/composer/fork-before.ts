/** Forks a chat before a message, with that message as the draft of the fork. */

import { IdempotencyKeys } from "../api/idempotency-key";
import { call } from "../api/request";
import type { Stored } from "../api/types";
import { draftNamed } from "./draft";
import { contentOf } from "./draft-content";

const keys = new IdempotencyKeys();

/**
 * Forks the chat before a message, with that message as the draft. Returns the URL of the fork.
 * Before the first message there is nothing to copy: the draft goes to a new chat.
 */
export async function forkBefore(chat: string, { number, message }: Stored): Promise<string> {
  // Asked of the server: this page may not have loaded the message before it.
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
