/** Context window usage, cost and status of a chat, in numbers and words. Pure. */

import type { Agent, Model, Snapshot, Spent } from "../api/types";
import { cost } from "../ui/format";

export interface ContextUsage {
  readonly used: number;
  /** Size of the context window in tokens; null if unknown. */
  readonly window: number | null;
  /** Tokens at which the chat is compacted; null if never or unknown. */
  readonly threshold: number | null;
  /** Share of the window, from 0 to 1; null if unknown. */
  readonly share: number | null;
  readonly thresholdShare: number | null;
  readonly level: "calm" | "near" | "full" | "unknown";
}

const FULL = 0.95;

/** Context usage; null before the first answer, when the server does not know it. */
export function contextUsageOf(
  used: number | null | undefined,
  agent: Agent | undefined,
  model: Model | undefined,
): ContextUsage | null {
  if (used == null) return null;
  const window = model?.window ?? (model === undefined ? null : windowOf(agent, model));
  const percent = agent?.threshold ?? null;
  const threshold = thresholdOf(window, percent, agent, model);
  const share = window === null ? null : Math.min(1, used / window);
  const thresholdShare = window === null || threshold === null ? null : threshold / window;
  return { used, window, threshold, share, thresholdShare, level: level(used, window, threshold) };
}

function windowOf(agent: Agent | undefined, model: Model): number | null {
  return agent !== undefined && agent.model === model.name ? agent.window : null;
}

/** The compaction threshold. For models other than the agent's, the same share of the window. */
function thresholdOf(
  window: number | null,
  percent: number | null,
  agent: Agent | undefined,
  model: Model | undefined,
): number | null {
  if (agent !== undefined && agent.model === model?.name) return agent.compacts_at;
  if (window === null || percent === null) return null;
  return Math.floor((window * percent) / 100);
}

function level(
  used: number,
  window: number | null,
  threshold: number | null,
): ContextUsage["level"] {
  if (window === null) return "unknown";
  if (used >= window * FULL) return "full";
  return used * 10 >= (threshold ?? window * FULL) * 9 ? "near" : "calm";
}

export function percent(share: number): string {
  if (share > 0 && share < 0.01) return "under 1%";
  return `${Math.round(share * 100)}%`;
}

/** All input tokens, including cached ones. */
export function tokensIn({ usage }: Spent): number {
  return (usage.input ?? 0) + (usage.cache_read ?? 0) + (usage.cache_write ?? 0);
}

/** The cost as text; unknown if no call has a known price. */
export function costWords({ usage, unpriced, calls }: Spent): string {
  return calls > 0 && unpriced === calls ? "unknown" : cost(usage.cost ?? 0);
}

export function unpricedWords({ unpriced, calls }: Spent): string | null {
  if (unpriced === 0) return null;
  if (unpriced === calls) return "No price is known for these calls.";
  const which = unpriced === 1 ? "1 call has" : `${unpriced} calls have`;
  return `${which} no known price and ${unpriced === 1 ? "is" : "are"} not included in the cost.`;
}

/** Whether subagents have used anything. */
export function usesMore(tree: Spent, own: Spent): boolean {
  return tree.calls > own.calls;
}

export interface StatusLabel {
  readonly words: string;
  readonly look: "busy" | "needs" | "bad" | "rest";
}

/** What a waiting chat waits for: this user, its owner, or a subagent's chat. */
export type WaitsFor = "me" | "owner" | "chat";

export function statusLabelOf(chat: Snapshot, stopping: boolean, waitsFor: WaitsFor): StatusLabel {
  if (chat.stranded) return { words: "No worker for this agent", look: "bad" };
  switch (chat.status) {
    case "running":
      if (stopping) return { words: "Stopping…", look: "busy" };
      if (chat.retry !== null) return { words: "Waiting to retry", look: "busy" };
      if (chat.compaction !== null) return { words: "Summarizing", look: "busy" };
      return { words: "Working", look: "busy" };
    case "interrupting":
      return { words: "Stopping…", look: "busy" };
    case "requires_action":
      if (waitsFor === "me") return { words: "Waiting for you", look: "needs" };
      if (waitsFor === "owner") return { words: "Waiting for the owner", look: "rest" };
      return { words: "Waiting for a subagent", look: "busy" };
    case "error":
      return { words: "Stopped by an error", look: "bad" };
    case "idle":
      return { words: idleWords(chat), look: "rest" };
  }
}

function idleWords({ outcome }: Snapshot): string {
  switch (outcome?.reason) {
    case undefined:
      return "Ready";
    case "interrupted":
      return "Interrupted";
    case "limit":
      return "Stopped at a limit";
    default:
      return "Done";
  }
}
