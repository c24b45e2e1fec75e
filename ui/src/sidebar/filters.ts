/** Filters of the sidebar, kept in the URL. Pure. */

import type { Chat, Status } from "../api/types";
import type { Wanted } from "../store/chat-list";
import { chatStatusOf } from "./chat-status";

export type Doing = "working" | "waiting" | "failed";

export interface Filters {
  readonly archived: boolean;
  readonly doing: Doing | null;
  readonly agent: string | null;
}

export const NO_FILTERS: Filters = { archived: false, doing: null, agent: null };
export const DOING: Readonly<Record<Doing, string>> = {
  working: "Working",
  waiting: "Waiting for you",
  failed: "Failed",
};

export function filtersOf(query: string): Filters {
  const given = new URLSearchParams(query);
  const doing = given.get("status");
  return {
    archived: given.get("archived") === "yes",
    doing: doing !== null && Object.hasOwn(DOING, doing) ? (doing as Doing) : null,
    agent: given.get("agent") || null,
  };
}

/** With its question mark; empty for none. */
export function queryOf(filters: Filters): string {
  const query = new URLSearchParams();
  if (filters.archived) query.set("archived", "yes");
  if (filters.doing !== null) query.set("status", filters.doing);
  if (filters.agent !== null) query.set("agent", filters.agent);
  return query.size === 0 ? "" : `?${query}`;
}

export function howMany({ archived, doing, agent }: Filters): number {
  return Number(archived) + Number(doing !== null) + Number(agent !== null);
}

export function fits(chat: Chat, { archived, doing, agent }: Filters): boolean {
  if (chat.archived !== archived) return false;
  if (agent !== null && chat.agent !== agent) return false;
  if (doing === null) return true;
  const standing = chatStatusOf(chat);
  return standing === doing || (standing === "stopping" && doing === "working");
}

const STATUS = {
  working: "running",
  waiting: "requires_action",
  failed: "error",
} as const satisfies Record<Doing, Status>;

/** What to ask the server for. What else fits is told by the stream. */
export function wantedFor({ archived, doing, agent }: Filters): Wanted {
  return {
    ...(archived && { archived }),
    ...(agent !== null && { agent }),
    ...(doing !== null && { status: STATUS[doing] }),
  };
}
