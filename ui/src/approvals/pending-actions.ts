/** Pending actions of the signed-in user in all chats: fetched, and fetched again on change. */

import { Problem } from "../api/problem";
import { call } from "../api/request";
import { Store } from "../reactive/store";
import type { ChatList } from "../store/chat-list";
import { type InboxAction, mayBeStale, signature } from "./grouping";

export interface PendingActions {
  /** Null until they are loaded. */
  readonly actions: readonly InboxAction[] | null;
  readonly problem: Problem | null;
  /** There are more than these. */
  readonly more: boolean;
}

const UNREAD: PendingActions = { actions: null, problem: null, more: false };

export const pendingActions = new Store(UNREAD);

const LIMIT = 200;
let reading: Promise<void> | null = null;
let again = false;
/** Number of sign-outs so far: a response is dropped if its user has signed out since. */
let signOuts = 0;

/** Fetches the pending actions. Calls during a request lead to one more request after it. */
export function readPendingActions(): void {
  if (reading !== null) {
    again = true;
    return;
  }
  reading = read().finally(() => {
    reading = null;
    if (!again) return;
    again = false;
    readPendingActions();
  });
}

async function read(): Promise<void> {
  const before = signOuts;
  try {
    const { actions, next } = await call("GET /actions", { query: { limit: LIMIT } });
    if (before === signOuts) pendingActions.set({ actions, problem: null, more: next !== null });
  } catch (error) {
    if (before === signOuts) {
      pendingActions.change((before) => ({ ...before, problem: Problem.of(error) }));
    }
  }
}

/**
 * Fetches the pending actions again whenever the list of chats changes in a way that may concern
 * them. The list does not see every intermediate state: a fetched action may already be answered.
 */
export function followPendingActions(list: ChatList): () => void {
  let seen: string | null = null;
  const now = () => [list.chats.get().byId, pendingActions.get().actions ?? []] as const;
  const look = () => {
    const signed = signature(...now());
    if (signed === seen) return;
    seen = signed;
    readPendingActions();
  };
  const take = () => {
    if (mayBeStale(...now())) look();
    else seen = signature(...now());
  };
  look();
  const stopChats = list.chats.subscribe(look);
  const stopRead = pendingActions.subscribe(take);
  // Fetched again after a reconnect.
  const stopLine = list.stream.state.subscribe(() => {
    if (list.stream.state.get().is === "open") readPendingActions();
  });
  return () => {
    stopChats();
    stopRead();
    stopLine();
    // The next user must not see the actions of the previous one.
    signOuts += 1;
    pendingActions.set(UNREAD);
  };
}
