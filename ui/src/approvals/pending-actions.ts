/** Pending actions of the signed-in user in all chats: fetched, and fetched again on change. */

import { Problem } from "../api/problem";
import { call } from "../api/request";
import { Store } from "../reactive/store";
import type { ChatList } from "../store/chat-list";
import { type InboxAction, mayBeStale, signature } from "./grouping";

export interface PendingActions {
  /** Null until it was read once. */
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

/** One request at a time; what is asked for meanwhile is one more behind it. */
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
      pendingActions.change((known) => ({ ...known, problem: Problem.of(error) }));
    }
  }
}

/**
 * The list is told of every change of a chat, so it knows when to look. Not of each that comes before
 * another: what was read may be asked and answered between two things that it was told.
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
  // What could not be read while the line was down is read when it is up again.
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
