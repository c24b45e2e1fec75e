/** Sections of the sidebar: which chats belong to which, in which order. Pure. */

import type { Chat } from "../api/types";
import { type Filters, matchesFilters } from "./filters";

export type SectionKey = "pinned" | "shared" | "today" | "yesterday" | "week" | "older";

export interface Section {
  readonly key: SectionKey;
  readonly name: string;
  readonly isOpen: boolean;
  /** Number of chats, including hidden ones. */
  readonly count: number;
  /** Empty if collapsed. */
  readonly rows: readonly Chat[];
}

const NAMES: Readonly<Record<SectionKey, string>> = {
  pinned: "Pinned",
  shared: "Shared with you",
  today: "Today",
  yesterday: "Yesterday",
  week: "Past week",
  older: "Older",
};
const ORDER = Object.keys(NAMES) as SectionKey[];

/**
 * The order at the time the pointer entered the list. Rows stay in place until it leaves, and new
 * chats wait too.
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

interface SectionInput {
  readonly chats: ReadonlyMap<string, Chat>;
  /** Milliseconds. */
  readonly now: number;
  readonly filters: Filters;
  readonly collapsed: ReadonlySet<string>;
  readonly frozen?: FrozenOrder | null;
  /** The open chat, which is always shown. */
  readonly open?: string | null;
}

export function sectionsOf(input: SectionInput): readonly Section[] {
  const { now, filters, collapsed, frozen: hold = null, open = null } = input;
  const timeOf = (chat: Chat) => hold?.times.get(chat.id) ?? chat.updated_at;
  const byKey = new Map<SectionKey, Chat[]>();
  for (const chat of input.chats.values()) {
    if (!isTopLevel(chat, input.chats) || !matchesFilters(chat, filters)) continue;
    if (isNew(chat, hold) && chat.id !== open) continue;
    const key = keyOf(chat, timeOf(chat), now);
    const section = byKey.get(key);
    if (section === undefined) byKey.set(key, [chat]);
    else section.push(chat);
  }
  return ORDER.flatMap((key) => {
    const chats = byKey.get(key);
    if (chats === undefined) return [];
    const isOpen = !collapsed.has(key);
    chats.sort((one, other) => timeOf(other) - timeOf(one) || (one.id < other.id ? 1 : -1));
    return [{ key, name: NAMES[key], isOpen, count: chats.length, rows: isOpen ? chats : [] }];
  });
}

/** The chat above or below; null at the ends. Without a current chat: the first or last. */
export function neighbourOf(
  shown: readonly Section[],
  id: string | null,
  step: 1 | -1,
): string | null {
  const ids = shown.flatMap(({ rows }) => rows.map(({ id }) => id));
  const at = id === null ? -1 : ids.indexOf(id);
  if (at === -1) return ids.at(step === 1 ? 0 : -1) ?? null;
  return ids[at + step] ?? null;
}

/** Whether a chat is at the top level: not a subagent's, or its parent is not visible. */
function isTopLevel(chat: Chat, chats: ReadonlyMap<string, Chat>): boolean {
  return chat.parent_id === null || (chat.mine === false && !chats.has(chat.parent_id));
}

function isNew(chat: Chat, frozen: FrozenOrder | null): boolean {
  return frozen !== null && !frozen.times.has(chat.id) && chat.updated_at > frozen.since;
}

function keyOf(chat: Chat, updated: number, now: number): SectionKey {
  if (chat.pinned) return "pinned";
  if (chat.mine === false) return "shared";
  return dayOf(updated / 1000, now);
}

function dayOf(then: number, now: number): SectionKey {
  if (then >= midnight(now, 0)) return "today";
  if (then >= midnight(now, 1)) return "yesterday";
  return then >= midnight(now, 7) ? "week" : "older";
}

/** Midnight some days ago, by the calendar: two days a year do not have 24 hours. */
function midnight(now: number, daysBefore: number): number {
  const day = new Date(now);
  return new Date(day.getFullYear(), day.getMonth(), day.getDate() - daysBefore).getTime();
}
