/** The inbox's entries: merged with what was shown before, and grouped by chat. Pure. */

import type { Schemas } from "../api/schema";
import type { Chat } from "../api/types";

export type Asked = Schemas["ListedAction"];

export interface Entry {
  readonly key: string;
  readonly asked: Asked;
  /** It was answered here, or somewhere else, since one looked. */
  readonly settled: boolean;
}

/** Entries of one chat in the list and of the chats it started. */
export interface Group {
  readonly rootId: string;
  readonly title: string | null;
  readonly entries: readonly Entry[];
}

export function keyOf({ chat_id, action }: Asked): string {
  return `${chat_id} ${action.call.id} ${action.digest}`;
}

/**
 * What was shown before stays where it is, and what is new comes behind it: nothing moves under the
 * pointer just before a click.
 */
export function merged(before: readonly Entry[], now: readonly Asked[]): readonly Entry[] {
  const waiting = new Map(now.map((asked) => [keyOf(asked), asked]));
  const kept = before.map((entry) => {
    const asked = waiting.get(entry.key);
    waiting.delete(entry.key);
    if (asked === undefined) return entry.settled ? entry : { ...entry, settled: true };
    return { key: entry.key, asked, settled: false };
  });
  const fresh = [...waiting].map(([key, asked]) => ({ key, asked, settled: false }));
  fresh.sort((one, other) => one.asked.asked_at - other.asked.asked_at);
  return [...kept, ...fresh];
}

export function grouped(entries: readonly Entry[]): readonly Group[] {
  const groups = new Map<string, { rootId: string; title: string | null; entries: Entry[] }>();
  for (const entry of entries) {
    const { root_id: rootId, root_title } = entry.asked;
    const group = groups.get(rootId) ?? { rootId, title: null, entries: [] };
    group.title = root_title;
    group.entries.push(entry);
    groups.set(rootId, group);
  }
  return [...groups.values()];
}

/** Changes when something may wait that did not, or no longer does. `asked`: what was read to wait. */
export function signature(chats: ReadonlyMap<string, Chat>, asked: readonly Asked[]): string {
  const said = new Set(asked.map(({ root_id }) => root_id));
  const parts: string[] = [];
  for (const chat of chats.values()) {
    if (mayWait(chat) || said.has(chat.id)) parts.push(`${chat.id}:${chat.snapshot_version}`);
  }
  return parts.sort().join(" ");
}

/** What was read to wait is of a chat that does not, as the list has it: one of the two is late. */
export function isDoubtful(chats: ReadonlyMap<string, Chat>, asked: readonly Asked[]): boolean {
  return asked.some(({ root_id }) => {
    const chat = chats.get(root_id);
    return chat !== undefined && !mayWait(chat);
  });
}

function mayWait({ needs_me, status }: Chat): boolean {
  return needs_me || status === "requires_action";
}

/** Chats that wait for the person, as far as the list is read. */
export function needing(chats: ReadonlyMap<string, Chat>): number {
  let waiting = 0;
  for (const chat of chats.values()) if (chat.needs_me && chat.parent_id === null) waiting += 1;
  return waiting;
}

/** (2) The chat — Holdfast */
export function tabTitle(count: number, open: string | null): string {
  const page = open === null ? "Holdfast" : `${open} — Holdfast`;
  return count > 0 ? `(${count}) ${page}` : page;
}
