/** Matches messages that this page sent with those in the chat. Pure. */

import type { Message, Prompt } from "../api/types";
import type { Unsent } from "./outbox";
import { isRead, type Transcript } from "./transcript";

/** What a chat had when a message was sent to it: the message itself can only come behind that. */
export interface Before {
  readonly number: number;
  readonly queue: readonly string[];
}

/** Nothing when the chat has not said yet what it has. */
export function beforeNow(transcript: Transcript): { readonly before?: Before } {
  if (transcript.chat === null) return {};
  const queue = transcript.queue.map((each) => each.id);
  return { before: { number: last(transcript), queue } };
}

/** For certain: it has the place that the server gave it, or had it and went on from there. */
export function hasArrived(one: Unsent, transcript: Transcript): boolean {
  if (one.number !== undefined) return last(transcript) >= one.number;
  if (one.queued === undefined) return false;
  if (transcript.queue.some((each) => each.id === one.queued)) return true;
  return one.version !== undefined && isToldUpTo(transcript, one.version);
}

function last({ messages }: Transcript): number {
  return messages.at(-1)?.number ?? 0;
}

/** The chat itself may be told before its messages are: those must be here as well. */
function isToldUpTo(transcript: Transcript, version: number): boolean {
  const { chat } = transcript;
  if (chat === null || chat.snapshot_version < version) return false;
  return isRead(transcript);
}

/**
 * Those that are still to be shown. The stream may be faster than the answer to the request: what
 * has just come and says the same is taken for the message, until the answer says where it is.
 */
export function stillToShow(all: readonly Unsent[], transcript: Transcript): readonly Unsent[] {
  const taken = new Set<number | string>();
  const left = all.filter((one) => {
    const place = one.number ?? one.queued;
    if (place !== undefined || one.refused !== undefined) return true;
    const found = lookalike(one, transcript, taken);
    if (found !== null) taken.add(found);
    return found === null;
  });
  return left.length === all.length ? all : left;
}

function lookalike(
  { prompt, before }: Unsent,
  { messages, queue }: Transcript,
  taken: ReadonlySet<number | string>,
): number | string | null {
  if (before === undefined) return null;
  const said = messages.find(
    ({ number, message }) =>
      number > before.number && !taken.has(number) && isSame(prompt, message),
  );
  if (said !== undefined) return said.number;
  const waiting = queue.find(
    ({ id, message }) => !before.queue.includes(id) && !taken.has(id) && isSame(prompt, message),
  );
  return waiting?.id ?? null;
}

function isSame(prompt: Prompt, { kind, parts }: Message): boolean {
  if (kind !== "prompt") return false;
  const given = typeof prompt === "string" ? [{ type: "text" as const, text: prompt }] : prompt;
  return (
    given.length === parts.length &&
    given.every((one, at) => {
      const part = parts[at];
      if (one.type !== part?.type) return false;
      return one.type !== "text" || part.type !== "text" || one.text === part.text;
    })
  );
}
