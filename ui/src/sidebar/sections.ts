/** Sections of the sidebar: which chats belong to which, in which order. Pure. */

import type { Chat } from "../api/types";
import { type Filters, fits } from "./filters";

export type Key = "pinned" | "shared" | "today" | "yesterday" | "week" | "older";

export interface Section {
  readonly key: Key;
  readonly name: string;
  readonly isOpen: boolean;
  /** Also of those that are not shown. */
  readonly count: number;
  /** None when it is folded. */
  readonly rows: readonly Chat[];
}

const NAMES: Readonly<Record<Key, string>> = {
  pinned: "Pinned",
  shared: "Shared with you",
  today: "Today",
  yesterday: "Yesterday",
  week: "Past week",
  older: "Older",
};
const ORDER = Object.keys(NAMES) as Key[];

/**
 * The order as it was when somebody began to point at the list. Rows stay where they are until they
 * look away; what is new waits, too.
 */
export interface FrozenOrder {
  readonly times: ReadonlyMap<string, number>;
  /** Microseconds. */
  readonly since: number;
}

export function freezeOrder(chats: Iterable<Chat>, now: number): FrozenOrder {
  const times = new Map<string, number>();
  for (const chat of chats) times.set(chat.id, chat.updated_at);
  return { times, since: now * 1000 };
}

interface Given {
  readonly chats: ReadonlyMap<string, Chat>;
  /** Milliseconds. */
  readonly now: number;
  readonly filters: Filters;
  readonly collapsed: ReadonlySet<string>;
  readonly hold?: FrozenOrder | null;
  /** The one on the screen: it is there, however new it is. */
  readonly open?: string | null;
}

export function sections(given: Given): readonly Section[] {
  const { now, filters, collapsed, hold = null, open = null } = given;
  const timeOf = (chat: Chat) => hold?.times.get(chat.id) ?? chat.updated_at;
  const byKey = new Map<Key, Chat[]>();
  for (const chat of given.chats.values()) {
    if (!isTop(chat, given.chats) || !fits(chat, filters)) continue;
    if (isNew(chat, hold) && chat.id !== open) continue;
    const key = keyOf(chat, timeOf(chat), now);
    const together = byKey.get(key);
    if (together === undefined) byKey.set(key, [chat]);
    else together.push(chat);
  }
  return ORDER.flatMap((key) => {
    const chats = byKey.get(key);
    if (chats === undefined) return [];
    const isOpen = !collapsed.has(key);
    chats.sort((one, other) => timeOf(other) - timeOf(one) || (one.id < other.id ? 1 : -1));
    return [{ key, name: NAMES[key], isOpen, count: chats.length, rows: isOpen ? chats : [] }];
  });
}

/** The one above or below in the list; null at its ends. From none: the first, or the last. */
export function beside(shown: readonly Section[], id: string | null, step: 1 | -1): string | null {
  const ids = shown.flatMap(({ rows }) => rows.map(({ id }) => id));
  const at = id === null ? -1 : ids.indexOf(id);
  if (at === -1) return ids.at(step === 1 ? 0 : -1) ?? null;
  return ids[at + step] ?? null;
}

/** No other chat in the list set it to work. */
function isTop(chat: Chat, chats: ReadonlyMap<string, Chat>): boolean {
  return chat.parent_id === null || (chat.mine === false && !chats.has(chat.parent_id));
}

function isNew(chat: Chat, hold: FrozenOrder | null): boolean {
  return hold !== null && !hold.times.has(chat.id) && chat.updated_at > hold.since;
}

function keyOf(chat: Chat, updated: number, now: number): Key {
  if (chat.pinned) return "pinned";
  if (chat.mine === false) return "shared";
  return dayOf(updated / 1000, now);
}

function dayOf(then: number, now: number): Key {
  if (then >= midnight(now, 0)) return "today";
  if (then >= midnight(now, 1)) return "yesterday";
  return then >= midnight(now, 7) ? "week" : "older";
}

/** Days differ in length twice a year: so it is asked of the calendar. */
function midnight(now: number, daysBefore: number): number {
  const day = new Date(now);
  return new Date(day.getFullYear(), day.getMonth(), day.getDate() - daysBefore).getTime();
}
