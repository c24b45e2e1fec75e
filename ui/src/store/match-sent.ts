/** Matches messages that this page sent with those in the chat. Pure. */

import type { Message, Prompt } from "../api/types";
import type { Unsent } from "./outbox";
import { isLoaded, type Transcript } from "./transcript";

/** What a chat had when a message was sent to it: the message itself can only come behind that. */
export interface ChatPosition {
  readonly number: number;
  readonly queue: readonly string[];
}

/** Nothing when the chat has not said yet what it has. */
export function positionNow(transcript: Transcript): { readonly before?: ChatPosition } {
  if (transcript.chat === null) return {};
  const queue = transcript.queue.map((each) => each.id);
  return { before: { number: lastNumber(transcript), queue } };
}

/** For certain: it has the place that the server gave it, or had it and went on from there. */
export function isInChat(one: Unsent, transcript: Transcript): boolean {
  if (one.number !== undefined) return lastNumber(transcript) >= one.number;
  if (one.queued === undefined) return false;
  if (transcript.queue.some((each) => each.id === one.queued)) return true;
  return one.version !== undefined && hasReached(transcript, one.version);
}

function lastNumber({ messages }: Transcript): number {
  return messages.at(-1)?.number ?? 0;
}

/** The chat itself may be told before its messages are: those must be here as well. */
function hasReached(transcript: Transcript, version: number): boolean {
  const { chat } = transcript;
  if (chat === null || chat.snapshot_version < version) return false;
  return isLoaded(transcript);
}

/**
 * Those that are still to be shown. The stream may be faster than the answer to the request: what
 * has just come and says the same is taken for the message, until the answer says where it is.
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
