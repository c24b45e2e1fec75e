/**
 * The transcript of an open chat: a fold over the events of its stream. Pure.
 *
 * As on the server, messages are identified by number and may arrive again. The message of an
 * attempt arrives before the reset of its fragments.
 */

import type { ChatEvent, Pending, Queued, Snapshot, Status, Stored } from "../api/types";
import { type LiveOutput, NO_OUTPUT, withDelta } from "./live-output";

export interface Transcript {
  /** Null until the first event. */
  readonly chat: Snapshot | null;
  /** Ordered by number, without superseded ones. */
  readonly messages: readonly Stored[];
  /** Earlier messages exist before this number; null if there are none. */
  readonly moreBefore: number | null;
  readonly queue: readonly Queued[];
  readonly actions: readonly Pending[];
  readonly live: LiveOutput;
}

export const EMPTY: Transcript = {
  chat: null,
  messages: [],
  moreBefore: null,
  queue: [],
  actions: [],
  live: NO_OUTPUT,
};

/**
 * The status of the chat. Live output may arrive before the snapshot that says "running": a user who
 * sees output can stop or steer.
 */
export function statusOf({ chat, live }: Transcript): Status | null {
  const hasOutput = live.parts.length > 0 || live.summary !== null;
  return chat?.status === "idle" && hasOutput ? "running" : (chat?.status ?? null);
}

/** Whether all messages up to the last are loaded: the chat's snapshot arrives before them. */
export function isLoaded({ chat, messages }: Transcript): boolean {
  return chat !== null && (messages.at(-1)?.number ?? 0) >= chat.messages;
}

/** Applies events together, so that no intermediate state is shown. */
export function applyEvents(
  transcript: Transcript,
  events: readonly ChatEvent[],
  now: number,
): Transcript {
  return events.reduce((before, event) => applyEvent(before, event, now), transcript);
}

function applyEvent(before: Transcript, event: ChatEvent, now: number): Transcript {
  switch (event.event) {
    case "chat":
      return isOlder(event.data, before.chat) ? before : { ...before, chat: event.data };
    case "message":
      return withMessage(before, event.data);
    case "superseded":
      return { ...before, messages: without(before.messages, event.data.numbers) };
    case "queue":
      return { ...before, queue: event.data.queue };
    case "actions":
      return { ...before, actions: event.data.actions };
    case "delta":
      return { ...before, live: withDelta(before.live, event.data, now) };
    case "reset":
      if (event.data.what === "live") return { ...before, live: NO_OUTPUT };
      return { ...EMPTY, chat: before.chat, moreBefore: event.data.more_before ?? null };
    default:
      return before; // `end`, handled by the connection, or an unknown event
  }
}

function isOlder(chat: Snapshot, than: Snapshot | null): boolean {
  return than !== null && chat.snapshot_version < than.snapshot_version;
}

function withMessage(before: Transcript, stored: Stored): Transcript {
  const messages = withStored(before.messages, stored);
  return { ...before, messages, live: withoutCommitted(before.live, stored) };
}

/** Removes live output that a committed message contains now, so that it is not shown twice. */
function withoutCommitted(live: LiveOutput, { message }: Stored): LiveOutput {
  if (message.role === "assistant") return live.parts.length > 0 ? { ...live, parts: [] } : live;
  if (message.kind === "checkpoint") return { ...live, summary: null };
  const results = message.parts.filter((part) => part.type === "result");
  if (!results.some((part) => live.calls.has(part.call_id))) return live;
  const calls = new Map(live.calls);
  for (const part of results) calls.delete(part.call_id);
  return { ...live, calls };
}

export function withStored(messages: readonly Stored[], stored: Stored): readonly Stored[] {
  if (stored.superseded_at != null) return without(messages, [stored.number]);
  const last = messages.at(-1);
  if (last === undefined || last.number < stored.number) return [...messages, stored];
  const at = messages.findIndex((each) => each.number >= stored.number);
  const existing = messages[at];
  if (existing?.number !== stored.number) return messages.toSpliced(at, 0, stored);
  return existing.revision > stored.revision ? messages : messages.with(at, stored);
}

function without(messages: readonly Stored[], numbers: readonly number[]): readonly Stored[] {
  const removed = new Set(numbers);
  return messages.filter((each) => !removed.has(each.number));
}

/** Adds a page of earlier messages in front. */
export function withEarlier(
  before: Transcript,
  page: readonly Stored[],
  next: number | null,
): Transcript {
  const first = before.messages[0]?.number ?? Number.POSITIVE_INFINITY;
  const earlier = page.filter((each) => each.number < first && each.superseded_at == null);
  return { ...before, messages: [...earlier, ...before.messages], moreBefore: next };
}
