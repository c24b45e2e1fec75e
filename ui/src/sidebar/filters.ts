/** Filters of the sidebar, kept in the URL. Pure. */

import type { Chat, Status } from "../api/types";
import type { ListQuery } from "../store/chat-list";
import { chatStatusOf } from "./chat-status";

export type StatusFilter = "working" | "waiting" | "failed";

export interface Filters {
  readonly archived: boolean;
  readonly status: StatusFilter | null;
  readonly agent: string | null;
}

export const NO_FILTERS: Filters = { archived: false, status: null, agent: null };
export const STATUS_FILTERS: Readonly<Record<StatusFilter, string>> = {
  working: "Working",
  waiting: "Waiting for you",
  failed: "Failed",
};

export function filtersOf(query: string): Filters {
  const params = new URLSearchParams(query);
  const status = params.get("status");
  return {
    archived: params.get("archived") === "yes",
    status:
      status !== null && Object.hasOwn(STATUS_FILTERS, status) ? (status as StatusFilter) : null,
    agent: params.get("agent") || null,
  };
}

/** The query string with its question mark; empty without filters. */
export function queryOf(filters: Filters): string {
  const query = new URLSearchParams();
  if (filters.archived) query.set("archived", "yes");
  if (filters.status !== null) query.set("status", filters.status);
  if (filters.agent !== null) query.set("agent", filters.agent);
  return query.size === 0 ? "" : `?${query}`;
}

export function countFilters({ archived, status, agent }: Filters): number {
  return Number(archived) + Number(status !== null) + Number(agent !== null);
}

export function matchesFilters(chat: Chat, { archived, status: doing, agent }: Filters): boolean {
  if (chat.archived !== archived) return false;
  if (agent !== null && chat.agent !== agent) return false;
  if (doing === null) return true;
  const chatStatus = chatStatusOf(chat);
  return chatStatus === doing || (chatStatus === "stopping" && doing === "working");
}

const STATUS = {
  working: "running",
  waiting: "requires_action",
  failed: "error",
} as const satisfies Record<StatusFilter, Status>;

/** The server query of filters. The stream reports other matching chats. */
export function serverQueryOf({ archived, status, agent }: Filters): ListQuery {
  return {
    ...(archived && { archived }),
    ...(agent !== null && { agent }),
    ...(status !== null && { status: STATUS[status] }),
  };
}
