/** The chat's status at the end of the timeline: working, retrying, failed, disconnected. Pure. */

import type { StreamState } from "../api/event-stream";
import type { Failure, LimitReached, Snapshot } from "../api/types";
import type { LiveOutput } from "../store/live-output";

export type Tail =
  | { readonly is: "retry"; readonly retry: NonNullable<Snapshot["retry"]> }
  | { readonly is: "failed"; readonly failure: Failure }
  | { readonly is: "ended"; readonly reason: string }
  | { readonly is: "stopping" }
  | { readonly is: "reconnecting"; readonly retryAt: number; readonly tries: number }
  /** No worker has taken the chat. */
  | { readonly is: "stranded" }
  /** Before the first output. */
  | { readonly is: "thinking" }
  | { readonly is: "working" }
  | { readonly is: "waiting"; readonly people: number; readonly agents: number }
  | { readonly is: "stopped" }
  | ({ readonly is: "limit" } & LimitReached)
  | { readonly is: "archived" }
  | { readonly is: "rest" };

export interface TailInput {
  readonly chat: Snapshot | null;
  readonly live: Pick<LiveOutput, "parts" | "calls" | "summary">;
  readonly actions: readonly { readonly kind: string }[];
  readonly stream: StreamState;
  /** This page has requested an interrupt. */
  readonly stopping: boolean;
}

/** The state of the chat's end; the first match wins. */
export function tailOf({ chat, live, actions, stream, stopping }: TailInput): Tail {
  if (stream.is === "ended") return { is: "ended", reason: stream.reason };
  if (chat === null) return { is: "rest" };
  const isBusy = chat.status === "running" || chat.status === "interrupting";
  if (isBusy && chat.retry !== null) return { is: "retry", retry: chat.retry };
  if (chat.status === "error" && chat.error !== null) return { is: "failed", failure: chat.error };
  if (chat.status === "interrupting" || (isBusy && stopping)) return { is: "stopping" };
  // An idle chat has no news: a lost connection is not shown there.
  if ((isBusy || chat.status === "requires_action") && stream.is === "broken") {
    return { is: "reconnecting", retryAt: stream.retryAt, tries: stream.tries };
  }
  if (isBusy) return busy(chat, live);
  return resting(chat, actions);
}

function busy(chat: Snapshot, { parts, calls, summary }: TailInput["live"]): Tail {
  if (chat.stranded) return { is: "stranded" };
  const hasOutput = parts.length > 0 || calls.size > 0 || summary !== null;
  return { is: hasOutput ? "working" : "thinking" };
}

function resting(chat: Snapshot, actions: TailInput["actions"]): Tail {
  if (chat.status === "requires_action") {
    const agents = actions.filter(({ kind }) => kind === "child").length;
    return { is: "waiting", people: actions.length - agents, agents };
  }
  if (chat.archived) return { is: "archived" };
  if (chat.outcome?.reason === "interrupted") return { is: "stopped" };
  if (chat.outcome?.limit != null) return { is: "limit", ...chat.outcome.limit };
  return { is: "rest" };
}

const TITLES: Readonly<Record<Failure["kind"], string>> = {
  auth: "The provider does not accept the key",
  budget: "A budget is used up",
  cancelled: "The turn was cancelled",
  config: "The configuration is incomplete",
  content_filter: "The provider withheld the answer",
  context_overflow: "The conversation is too long for the model",
  empty_response: "The model returned an empty answer",
  escalated: "A stop guard ended the turn",
  internal: "The server had an internal error",
  invalid_output: "The answer does not match the required format",
  invalid_request: "The provider rejected the request",
  network: "The provider could not be reached",
  not_found: "The model was not found",
  overloaded: "The provider is overloaded",
  permission: "The provider does not allow this",
  poison: "This turn crashed the worker repeatedly",
  prepare: "The turn could not be prepared",
  quota: "The provider account's quota is used up",
  rate_limit: "The provider's rate limit was reached",
  server: "The provider failed",
  still_over_limit: "The conversation is too long for the model, also after a summary",
  stream_cut: "The answer was cut off",
  stream_silent: "The provider stopped responding",
  stream_too_long: "The answer was too long",
  timeout: "The provider took too long",
  unknown: "The turn failed",
};

/** Title of a failure, by its kind. */
export function failureTitle({ kind }: Pick<Failure, "kind">): string {
  return TITLES[kind] ?? TITLES.unknown;
}

/** Whether a (different) provider key may solve the failure. */
export function isKeyProblem({ kind }: Pick<Failure, "kind">): boolean {
  return kind === "auth" || kind === "config";
}

const ENDINGS: Readonly<Record<string, string>> = {
  deleted: "This chat was deleted.",
  revoked: "You no longer have access to this chat.",
  refused: "The server refused the connection to this chat.",
};

export function endReason(reason: string): string {
  return ENDINGS[reason] ?? "The server closed the stream.";
}

/** Announcements for screen readers: only when something begins, ends or needs a person. */
export function announcement(before: Tail | null, now: Tail): string | null {
  if (before === null || phaseOf(before) === phaseOf(now)) return null;
  return now.is === "ended" ? endReason(now.reason) : WORDS[phaseOf(now)];
}

type Phase = "busy" | "needed" | "failed" | "stopped" | "lost" | "gone" | "rest";

const WORDS: Readonly<Record<Phase, string>> = {
  busy: "The agent is working.",
  needed: "The agent is waiting for an answer.",
  failed: "The turn failed.",
  stopped: "The turn was interrupted.",
  lost: "The connection is lost. Reconnecting.",
  gone: "The chat is no longer available.",
  rest: "The agent has finished.",
};

function phaseOf(tail: Tail): Phase {
  switch (tail.is) {
    case "thinking":
    case "working":
    case "stranded":
    case "retry":
    case "stopping":
      return "busy";
    case "waiting":
      // Only its subagents are working.
      return tail.people === 0 && tail.agents > 0 ? "busy" : "needed";
    case "failed":
    case "stopped":
      return tail.is;
    case "reconnecting":
      return "lost";
    case "ended":
      return "gone";
    default:
      return "rest";
  }
}
