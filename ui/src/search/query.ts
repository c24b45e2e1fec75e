/** The search query: words, and filters shown as pills. Pure. */

import type { Chat } from "../api/types";
import {
  type Filters,
  NO_FILTERS,
  STATUS_FILTERS,
  type StatusFilter,
  serverQueryOf,
} from "../sidebar/filters";

export type Pill = "archived" | "pinned" | StatusFilter | `agent:${string}`;

export const PILLS: readonly Pill[] = ["working", "waiting", "failed", "pinned", "archived"];

export function pillName(pill: Pill): string {
  if (pill.startsWith("agent:")) return `Agent ${pill.slice("agent:".length)}`;
  if (pill === "archived") return "Archived";
  return pill === "pinned" ? "Pinned" : STATUS_FILTERS[pill as StatusFilter];
}

/** Adds a pill. A chat has one status and one agent: a new one replaces the old one. */
export function withPill(pills: readonly Pill[], pill: Pill): readonly Pill[] {
  return [...pills.filter((each) => each !== pill && kindOf(each) !== kindOf(pill)), pill];
}

export function withoutPill(pills: readonly Pill[], pill: Pill): readonly Pill[] {
  return pills.filter((each) => each !== pill);
}

function kindOf(pill: Pill): string {
  if (pill.startsWith("agent:")) return "agent";
  return pill in STATUS_FILTERS ? "doing" : pill;
}

/** `is:failed ` and `agent:name ` become pills as soon as they are written. */
export function takePill(text: string): { readonly text: string; readonly pill: Pill | null } {
  const match = /(?:^|\s)(?:is:(\w+)|agent:(\S+))\s$/i.exec(text);
  const [whole = "", is, agent] = match ?? [];
  const pill = agent !== undefined ? (`agent:${agent}` as const) : pillOf(is);
  if (match === null || pill === null) return { text, pill: null };
  return { text: text.slice(0, text.length - whole.length), pill };
}

function pillOf(word: string | undefined): Pill | null {
  return PILLS.find((pill) => pill === word?.toLowerCase()) ?? null;
}

/** Filters that the last word may become. */
export function suggestedPills(text: string, agents: readonly string[]): readonly Pill[] {
  const word = /(?:^|\s)((?:is|agent):\S*)$/i.exec(text)?.[1]?.toLowerCase();
  if (word === undefined) return [];
  const [kind, prefix = ""] = [word.slice(0, word.indexOf(":")), word.slice(word.indexOf(":") + 1)];
  if (kind === "is") return PILLS.filter((pill) => pill.startsWith(prefix));
  return agents
    .filter((agent) => agent.toLowerCase().startsWith(prefix))
    .map((agent) => `agent:${agent}` as const);
}

/** The text without the filter that is being written. */
export function withoutPartialPill(text: string): string {
  return text.replace(/(^|\s)(is|agent):\S*$/i, "$1");
}

export const LIMIT = 50;

/** The query parameters of the search; null if there is nothing to search for. */
export function searchQueryOf(text: string, pills: readonly Pill[]) {
  const q = withoutPartialPill(text).trim();
  if (q === "" && pills.length === 0) return null;
  const agent = pills.find((pill) => kindOf(pill) === "agent")?.slice("agent:".length) ?? null;
  const status = (pills.find((pill) => kindOf(pill) === "doing") ?? null) as StatusFilter | null;
  const filters: Filters = {
    ...NO_FILTERS,
    archived: pills.includes("archived"),
    status,
    agent,
  };
  return {
    limit: LIMIT,
    ...serverQueryOf(filters),
    ...(q !== "" && { q }),
    ...(pills.includes("pinned") && { pinned: true }),
  };
}

/** Whether each of the words begins a word of a name. */
export function matchesName(name: string, text: string): boolean {
  const words = name.toLowerCase().split(/\s+/);
  const terms = text.toLowerCase().trim().split(/\s+/);
  return terms.every((want) => words.some((word) => word.startsWith(want)));
}

export function recentChats(chats: Iterable<Chat>, many: number): readonly Chat[] {
  return [...chats]
    .filter(({ archived, parent_id, mine }) => !archived && (parent_id === null || mine === false))
    .sort((one, other) => other.updated_at - one.updated_at)
    .slice(0, many);
}
