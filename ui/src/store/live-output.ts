/**
 * The output of a running attempt so far, from its deltas. Pure.
 *
 * It is shown with the same components as a committed message, so it consists of the same parts.
 * The live output of calls is stored separately, by call, because the message that contains the
 * calls may be committed already.
 */

import type { Fragment, Part, ToolResult } from "../api/types";

export interface Attempt {
  readonly epoch: number;
  readonly history_version: number;
  readonly attempt: number;
}

/** Live state of a call that runs or is about to. */
export interface LiveCall {
  readonly label: string;
  /** Preview for the approval. */
  readonly preview: string;
  /** Output so far. */
  readonly output: string;
  /** The last structured progress value. */
  readonly data: unknown;
  readonly running: boolean;
  /** Time at which it was first seen running, by this page's clock. */
  readonly since: number | null;
  readonly result: ToolResult | null;
  readonly seconds: number | null;
  /** Part of the output was dropped by the server. */
  readonly omitted: boolean;
}

export interface LiveOutput {
  readonly attempt: Attempt | null;
  readonly seq: number;
  /** The answer so far. */
  readonly parts: readonly Part[];
  readonly calls: ReadonlyMap<string, LiveCall>;
  /** The summary being written; null if none. */
  readonly summary: string | null;
  readonly warnings: readonly string[];
}

export const NO_OUTPUT: LiveOutput = {
  attempt: null,
  seq: 0,
  parts: [],
  calls: new Map(),
  summary: null,
  warnings: [],
};

const NEW_CALL: LiveCall = {
  label: "",
  preview: "",
  output: "",
  data: null,
  running: false,
  since: null,
  result: null,
  seconds: null,
  omitted: false,
};

export interface Delta extends Attempt {
  readonly first: number;
  readonly last: number;
  readonly fragment: Fragment;
}

/** Applies a delta. One of an older attempt is ignored; one of a newer attempt starts over. */
export function withDelta(live: LiveOutput, delta: Delta, now: number): LiveOutput {
  const order = live.attempt === null ? 1 : compareAttempts(delta, live.attempt);
  if (order < 0 || (order === 0 && delta.last <= live.seq)) return live;
  const { epoch, history_version, attempt } = delta;
  const base = order > 0 ? NO_OUTPUT : live;
  const at = order > 0 ? { epoch, history_version, attempt } : live.attempt;
  return withFragment({ ...base, attempt: at, seq: delta.last }, delta.fragment, now);
}

function compareAttempts(one: Attempt, other: Attempt): number {
  return (
    one.epoch - other.epoch ||
    one.history_version - other.history_version ||
    one.attempt - other.attempt
  );
}

function withFragment(live: LiveOutput, fragment: Fragment, now: number): LiveOutput {
  switch (fragment.type) {
    case "text_delta":
      return { ...live, parts: withText(live.parts, "text", fragment.text) };
    case "reasoning_delta":
      return { ...live, parts: withText(live.parts, "reasoning", fragment.text) };
    case "call_started": {
      const { call_id, tool } = fragment;
      return {
        ...live,
        parts: [...live.parts, { type: "call", id: call_id, tool, arguments: "" }],
      };
    }
    case "arguments_delta":
      return { ...live, parts: withArguments(live.parts, fragment.call_id, fragment.text) };
    case "tool_called":
      return { ...live, parts: withCall(live.parts, fragment.call) };
    case "tool_started": {
      const { call_id, label } = fragment;
      return withCallChange(live, call_id, { label, running: true, since: now });
    }
    case "tool_progressed": {
      const { call_id, text } = fragment;
      if (fragment.what === "preview") return withCallChange(live, call_id, { preview: text });
      const before = live.calls.get(call_id);
      const data = fragment.data ?? before?.data ?? null;
      return withCallChange(live, call_id, { output: (before?.output ?? "") + text, data });
    }
    case "tool_finished": {
      const { result, seconds } = fragment;
      return withCallChange(live, result.call_id, { running: false, result, seconds });
    }
    case "compacting":
      // An empty piece restarts the summary.
      return { ...live, summary: fragment.delta ? (live.summary ?? "") + fragment.delta : "" };
    case "warning":
      if (live.warnings.includes(fragment.text)) return live;
      return { ...live, warnings: [...live.warnings, fragment.text] };
    case "omitted":
      return fragment.call_ids.reduce(
        (all, id) => withCallChange(all, id, { omitted: true }),
        live,
      );
    default:
      return live; // of a newer server
  }
}

function withText(
  parts: readonly Part[],
  type: "text" | "reasoning",
  text: string,
): readonly Part[] {
  const last = parts.at(-1);
  if (last?.type !== type) return [...parts, { type, text }];
  return [...parts.slice(0, -1), { ...last, text: last.text + text }];
}

function withArguments(parts: readonly Part[], id: string, text: string): readonly Part[] {
  return parts.map((part) =>
    part.type === "call" && part.id === id ? { ...part, arguments: part.arguments + text } : part,
  );
}

function withCall(parts: readonly Part[], call: Part & { type: "call" }): readonly Part[] {
  const isStarted = parts.some((part) => part.type === "call" && part.id === call.id);
  if (!isStarted) return [...parts, call];
  return parts.map((part) => (part.type === "call" && part.id === call.id ? call : part));
}

function withCallChange(live: LiveOutput, id: string, change: Partial<LiveCall>): LiveOutput {
  const calls = new Map(live.calls);
  calls.set(id, { ...NEW_CALL, ...live.calls.get(id), ...change });
  return { ...live, calls };
}
