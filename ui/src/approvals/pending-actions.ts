/** Pending actions of the signed-in user in all chats: fetched, and fetched again on change. */

import { Problem } from "../api/problem";
import { call } from "../api/request";
import { Store } from "../reactive/store";
import type { ChatList } from "../store/chat-list";
import { type Asked, isDoubtful, signature } from "./grouping";

export interface Waiting {
  /** Null until it was read once. */
  readonly asked: readonly Asked[] | null;
  readonly problem: Problem | null;
  /** There are more than these. */
  readonly more: boolean;
}

const UNREAD: Waiting = { asked: null, problem: null, more: false };

export const waiting = new Store(UNREAD);

const MOST = 200;
let reading: Promise<void> | null = null;
let again = false;
/** Number of sign-outs so far: a response is dropped if its user has signed out since. */
let gone = 0;

/** One request at a time; what is asked for meanwhile is one more behind it. */
export function readWaiting(): void {
  if (reading !== null) {
    again = true;
    return;
  }
  reading = read().finally(() => {
    reading = null;
    if (!again) return;
    again = false;
    readWaiting();
  });
}

async function read(): Promise<void> {
  const before = gone;
  try {
    const { actions, next } = await call("GET /actions", { query: { limit: MOST } });
    if (before === gone) waiting.set({ asked: actions, problem: null, more: next !== null });
  } catch (error) {
    if (before === gone) {
      waiting.change((known) => ({ ...known, problem: Problem.of(error) }));
    }
  }
}

/**
 * The list is told of every change of a chat, so it knows when to look. Not of each that comes before
 * another: what was read may be asked and answered between two things that it was told.
 */
export function followWaiting(list: ChatList): () => void {
  let seen: string | null = null;
  const now = () => [list.chats.get().byId, waiting.get().asked ?? []] as const;
  const look = () => {
    const signed = signature(...now());
    if (signed === seen) return;
    seen = signed;
    readWaiting();
  };
  const take = () => {
    if (isDoubtful(...now())) look();
    else seen = signature(...now());
  };
  look();
  const stopChats = list.chats.subscribe(look);
  const stopRead = waiting.subscribe(take);
  // What could not be read while the line was down is read when it is up again.
  const stopLine = list.line.state.subscribe(() => {
    if (list.line.state.get().is === "open") readWaiting();
  });
  return () => {
    stopChats();
    stopRead();
    stopLine();
    // The next user must not see the actions of the previous one.
    gone += 1;
    waiting.set(UNREAD);
  };
}
