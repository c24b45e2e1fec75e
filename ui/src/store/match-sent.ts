/** Matches messages that this page sent with those in the chat. Pure. */

import type { Message, Prompt } from "../api/types";
import type { Unsent } from "./outbox";
import { isLoaded, type Transcript } from "./transcript";

/** Position in a chat when a message was sent: the message can only be after it. */
export interface ChatPosition {
  readonly number: number;
  readonly queue: readonly string[];
}

/** The current position; empty if the chat is not loaded yet. */
export function positionNow(transcript: Transcript): { readonly before?: ChatPosition } {
  if (transcript.chat === null) return {};
  const queue = transcript.queue.map((each) => each.id);
  return { before: { number: lastNumber(transcript), queue } };
}

/** Whether the chat certainly contains the message, or has already delivered it from the queue. */
export function isInChat(one: Unsent, transcript: Transcript): boolean {
  if (one.number !== undefined) return lastNumber(transcript) >= one.number;
  if (one.queued === undefined) return false;
  if (transcript.queue.some((each) => each.id === one.queued)) return true;
  return one.version !== undefined && hasReached(transcript, one.version);
}

function lastNumber({ messages }: Transcript): number {
  return messages.at(-1)?.number ?? 0;
}

/** Whether snapshot and messages have reached a version; the snapshot may arrive first. */
function hasReached(transcript: Transcript, version: number): boolean {
  const { chat } = transcript;
  if (chat === null || chat.snapshot_version < version) return false;
  return isLoaded(transcript);
}

/**
 * Messages that are still to be shown as unsent. The stream may be faster than the response: a new
 * message with the same content counts as the sent one, until the response names its position.
 */
export function notYetShown(all: readonly Unsent[], transcript: Transcript): readonly Unsent[] {
  const matched = new Set<number | string>();
  const unmatched = all.filter((one) => {
    const place = one.number ?? one.queued;
    if (place !== undefined || one.refused !== undefined) return true;
    const match = findMatch(one, transcript, matched);
    if (match !== null) matched.add(match);
    return match === null;
  });
  return unmatched.length === all.length ? all : unmatched;
}

function findMatch(
  { prompt, before }: Unsent,
  { messages, queue }: Transcript,
  matched: ReadonlySet<number | string>,
): number | string | null {
  if (before === undefined) return null;
  const stored = messages.find(
    ({ number, message }) =>
      number > before.number && !matched.has(number) && isSame(prompt, message),
  );
  if (stored !== undefined) return stored.number;
  const queued = queue.find(
    ({ id, message }) => !before.queue.includes(id) && !matched.has(id) && isSame(prompt, message),
  );
  return queued?.id ?? null;
}

function isSame(prompt: Prompt, { kind, parts }: Message): boolean {
  if (kind !== "prompt") return false;
  const sentParts = typeof prompt === "string" ? [{ type: "text" as const, text: prompt }] : prompt;
  return (
    sentParts.length === parts.length &&
    sentParts.every((one, at) => {
      const part = parts[at];
      if (one.type !== part?.type) return false;
      return one.type !== "text" || part.type !== "text" || one.text === part.text;
    })
  );
}
