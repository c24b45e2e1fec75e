/** The status of a chat in the sidebar, and its second line. Pure. */

import type { Chat } from "../api/types";

export type ChatStatus =
  | "working"
  | "stopping"
  | "waiting"
  | "failed"
  | "stopped"
  | "unread"
  | "idle";

export function chatStatusOf(chat: Chat, isOpen = false): ChatStatus {
  if (chat.status === "error" || chat.stranded) return "failed";
  if (chat.needs_me || waitsForOwner(chat)) return "waiting";
  if (chat.status === "running" || chat.status === "requires_action") return "working";
  if (chat.status === "interrupting") return "stopping";
  // The open chat counts as read before the server confirms it.
  if (chat.unread && !isOpen) return "unread";
  if (chat.outcome?.reason === "limit") return "stopped";
  return "idle";
}

/** Labels of the status icons for screen readers; empty for an idle chat. */
export const STATUS_LABELS: Readonly<Record<ChatStatus, string>> = {
  working: "working",
  stopping: "stopping",
  waiting: "waiting for you",
  failed: "failed",
  stopped: "stopped at a limit",
  unread: "unread",
  idle: "",
};

/** The second line of a row: its most important fact. `defaultModel`: the agent's. */
export function statusLineOf(chat: Chat, defaultModel: string | null = null): string {
  if (chat.status === "error") return chat.error?.message ?? "The turn failed.";
  if (chat.stranded) return `No worker for the agent ${chat.agent}.`;
  if (chat.needs_me) return "Waiting for you";
  if (waitsForOwner(chat)) return "Waiting for an answer";
  if (chat.retry !== null)
    return `Waiting to retry: attempt ${chat.retry.attempt + 1} of ${chat.retry.of}`;
  if (chat.status === "running") return "Working…";
  if (chat.status === "requires_action") return "Waiting for a subagent";
  if (chat.status === "interrupting") return "Stopping…";
  if (chat.mine === false) return chat.owner_name ?? "Someone else";
  if (chat.outcome?.reason === "limit") return "Stopped at a limit";
  return modelName(chat.model ?? defaultModel) ?? chat.agent;
}

/** Whether another user's chat waits. An own chat in this status waits for a subagent. */
function waitsForOwner(chat: Chat): boolean {
  return chat.status === "requires_action" && chat.mine === false;
}

/** The model without its provider, to save space. */
function modelName(model: string | null): string | null {
  return model?.split(/[/:]/).at(-1) || model;
}
