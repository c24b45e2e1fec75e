/** The inbox's entries: merged with what was shown before, and grouped by chat. Pure. */

import type { Schemas } from "../api/schema";
import type { Chat } from "../api/types";

export type InboxAction = Schemas["ListedAction"];

export interface Entry {
  readonly key: string;
  readonly pending: InboxAction;
  /** Answered, here or elsewhere, since the inbox was opened. */
  readonly settled: boolean;
}

/** Entries of one chat in the list and of the chats it started. */
export interface Group {
  readonly rootId: string;
  readonly title: string | null;
  readonly entries: readonly Entry[];
}

export function keyOf({ chat_id, action }: InboxAction): string {
  return `${chat_id} ${action.call.id} ${action.digest}`;
}

/**
 * Merges new actions into the shown entries. Shown entries stay in place, and new ones are added at
 * the end: nothing moves under the pointer just before a click.
 */
export function mergeEntries(
  before: readonly Entry[],
  now: readonly InboxAction[],
): readonly Entry[] {
  const waiting = new Map(now.map((action) => [keyOf(action), action]));
  const shown = before.map((entry) => {
    const pending = waiting.get(entry.key);
    waiting.delete(entry.key);
    if (pending === undefined) return entry.settled ? entry : { ...entry, settled: true };
    return { key: entry.key, pending, settled: false };
  });
  const added = [...waiting].map(([key, pending]) => ({ key, pending, settled: false }));
  added.sort((one, other) => one.pending.asked_at - other.pending.asked_at);
  return [...shown, ...added];
}

export function groupByChat(entries: readonly Entry[]): readonly Group[] {
  const groups = new Map<string, { rootId: string; title: string | null; entries: Entry[] }>();
  for (const entry of entries) {
    const { root_id: rootId, root_title } = entry.pending;
    const group = groups.get(rootId) ?? { rootId, title: null, entries: [] };
    group.title = root_title;
    group.entries.push(entry);
    groups.set(rootId, group);
  }
  return [...groups.values()];
}

/** A text that changes when the pending actions may have changed. */
export function signature(
  chats: ReadonlyMap<string, Chat>,
  pending: readonly InboxAction[],
): string {
  const roots = new Set(pending.map(({ root_id }) => root_id));
  const parts: string[] = [];
  for (const chat of chats.values()) {
    if (mayWait(chat) || roots.has(chat.id)) parts.push(`${chat.id}:${chat.snapshot_version}`);
  }
  return parts.sort().join(" ");
}

/** Whether actions and list disagree: an action's chat does not wait according to the list. */
export function mayBeStale(
  chats: ReadonlyMap<string, Chat>,
  pending: readonly InboxAction[],
): boolean {
  return pending.some(({ root_id }) => {
    const chat = chats.get(root_id);
    return chat !== undefined && !mayWait(chat);
  });
}

function mayWait({ needs_me, status }: Chat): boolean {
  return needs_me || status === "requires_action";
}

/** Number of loaded chats that wait for the user. */
export function countWaitingChats(chats: ReadonlyMap<string, Chat>): number {
  let waiting = 0;
  for (const chat of chats.values()) if (chat.needs_me && chat.parent_id === null) waiting += 1;
  return waiting;
}

/** (2) The chat — Holdfast */
export function tabTitle(count: number, open: string | null): string {
  const page = open === null ? "Holdfast" : `${open} — Holdfast`;
  return count > 0 ? `(${count}) ${page}` : page;
}
