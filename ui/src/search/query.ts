/** The search query: words, and filters shown as pills. Pure. */

import type { Chat } from "../api/types";
import { DOING, type Doing, type Filters, NO_FILTERS, wantedFor } from "../sidebar/filters";

export type Pill = "archived" | "pinned" | Doing | `agent:${string}`;

export const PILLS: readonly Pill[] = ["working", "waiting", "failed", "pinned", "archived"];

export function pillName(pill: Pill): string {
  if (pill.startsWith("agent:")) return `Agent ${pill.slice("agent:".length)}`;
  if (pill === "archived") return "Archived";
  return pill === "pinned" ? "Pinned" : DOING[pill as Doing];
}

/** With one more. A chat has one status and one agent: another takes the place of the first. */
export function withPill(pills: readonly Pill[], pill: Pill): readonly Pill[] {
  return [...pills.filter((each) => each !== pill && kindOf(each) !== kindOf(pill)), pill];
}

export function withoutPill(pills: readonly Pill[], pill: Pill): readonly Pill[] {
  return pills.filter((each) => each !== pill);
}

function kindOf(pill: Pill): string {
  if (pill.startsWith("agent:")) return "agent";
  return pill in DOING ? "doing" : pill;
}

/** `is:failed ` and `agent:name ` become pills as soon as they are written. */
export function taken(text: string): { readonly text: string; readonly pill: Pill | null } {
  const found = /(?:^|\s)(?:is:(\w+)|agent:(\S+))\s$/i.exec(text);
  const [whole = "", is, agent] = found ?? [];
  const pill = agent !== undefined ? (`agent:${agent}` as const) : pillOf(is);
  if (found === null || pill === null) return { text, pill: null };
  return { text: text.slice(0, text.length - whole.length), pill };
}

function pillOf(word: string | undefined): Pill | null {
  return PILLS.find((pill) => pill === word?.toLowerCase()) ?? null;
}

/** Filters that the last word may become. */
export function offered(text: string, agents: readonly string[]): readonly Pill[] {
  const word = /(?:^|\s)((?:is|agent):\S*)$/i.exec(text)?.[1]?.toLowerCase();
  if (word === undefined) return [];
  const [kind, begun = ""] = [word.slice(0, word.indexOf(":")), word.slice(word.indexOf(":") + 1)];
  if (kind === "is") return PILLS.filter((pill) => pill.startsWith(begun));
  return agents
    .filter((agent) => agent.toLowerCase().startsWith(begun))
    .map((agent) => `agent:${agent}` as const);
}

/** The text without the filter that is being written. */
export function withoutOffer(text: string): string {
  return text.replace(/(^|\s)(is|agent):\S*$/i, "$1");
}

export const MOST = 50;

/** What to ask the server; null when nothing is looked for. */
export function asked(text: string, pills: readonly Pill[]) {
  const q = withoutOffer(text).trim();
  if (q === "" && pills.length === 0) return null;
  const agent = pills.find((pill) => kindOf(pill) === "agent")?.slice("agent:".length) ?? null;
  const doing = (pills.find((pill) => kindOf(pill) === "doing") ?? null) as Doing | null;
  const filters: Filters = { ...NO_FILTERS, archived: pills.includes("archived"), doing, agent };
  return {
    limit: MOST,
    ...wantedFor(filters),
    ...(q !== "" && { q }),
    ...(pills.includes("pinned") && { pinned: true }),
  };
}

/** Whether each of the words begins a word of a name. */
export function isNamed(name: string, text: string): boolean {
  const words = name.toLowerCase().split(/\s+/);
  const wanted = text.toLowerCase().trim().split(/\s+/);
  return wanted.every((want) => words.some((word) => word.startsWith(want)));
}

export function recent(chats: Iterable<Chat>, many: number): readonly Chat[] {
  return [...chats]
    .filter(({ archived, parent_id, mine }) => !archived && (parent_id === null || mine === false))
    .sort((one, other) => other.updated_at - one.updated_at)
    .slice(0, many);
}
