/** Fixtures for tests and measurements: chats, messages and events. */

import type { ChatEvent, Fragment, Message, Part, Snapshot, Stored } from "../api/types";
import { applyEvents, EMPTY, type Transcript } from "./transcript";

export const BEGAN = 1_760_000_000_000_000;

export function snapshot(change: Partial<Snapshot> = {}): Snapshot {
  return {
    id: "c1",
    owner: "u1",
    agent: "main",
    title: null,
    titled_by: null,
    labels: {},
    model: null,
    effort: null,
    workspace: null,
    rules: [],
    parent_id: null,
    root_id: "c1",
    status: "idle",
    archived: false,
    error: null,
    retry: null,
    outcome: null,
    deadline: null,
    compaction: null,
    snapshot_version: 1,
    history_version: 1,
    queue_version: 1,
    epoch: 1,
    attempt: 1,
    messages: 0,
    created_at: BEGAN,
    updated_at: BEGAN,
    ...change,
  };
}

/** A stored message; each number is one second later. */
export function stored(number: number, message: Message, change: Partial<Stored> = {}): Stored {
  const created_at = BEGAN + number * 1_000_000;
  return { number, revision: 1, message, author: null, created_at, ...change };
}

export function prompt(number: number, text: string, change: Partial<Message> = {}): Stored {
  const parts: Part[] = [{ type: "text", text }];
  return stored(number, { role: "user", kind: "prompt", parts, ...change });
}

export function answer(
  number: number,
  parts: string | Part[],
  change: Partial<Message> = {},
): Stored {
  const content: Part[] = typeof parts === "string" ? [{ type: "text", text: parts }] : parts;
  return stored(number, { role: "assistant", kind: "answer", parts: content, ...change });
}

export function call(id: string, tool: string, values: unknown = {}): Part & { type: "call" } {
  return { type: "call", id, tool, arguments: JSON.stringify(values) };
}

export function result(id: string, tool: string, text: string): Part & { type: "result" } {
  return { type: "result", call_id: id, tool, content: [{ type: "text", text }] };
}

export function results(number: number, parts: Part[]): Stored {
  return stored(number, { role: "tool", kind: "results", parts });
}

export function messageEvent(data: Stored): ChatEvent {
  return { id: null, event: "message", data };
}

export function chatEvent(change: Partial<Snapshot>): ChatEvent {
  return { id: null, event: "chat", data: snapshot(change) };
}

export function delta(
  seq: number,
  fragment: Fragment,
  of: { epoch?: number; history_version?: number; attempt?: number } = {},
): ChatEvent {
  const attempt = { epoch: 1, history_version: 1, attempt: 1, ...of };
  return { id: null, event: "delta", data: { ...attempt, first: seq, last: seq, fragment } };
}

export function reset(what: "history" | "live", more_before: number | null = null): ChatEvent {
  return { id: null, event: "reset", data: { what, more_before } };
}

/** The transcript after these events. */
export function transcriptOf(events: readonly ChatEvent[], before: Transcript = EMPTY): Transcript {
  return applyEvents(before, events, 1_000);
}
