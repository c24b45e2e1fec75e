/** What an edit replaces, stops and drops, as a sentence. Pure. */

import type { Stored } from "../api/types";
import type { Transcript } from "../store/transcript";

/** Messages that people see below one. */
export function countBelow(messages: readonly Stored[], number: number): number {
  return messages.filter(
    ({ number: each, message }) =>
      each > number && message.visibility !== "model" && message.kind !== "results",
  ).length;
}

/** What the user should know before they save an edit. */
export function editWarning(transcript: Transcript, number: number): string {
  const count = countBelow(transcript.messages, number);
  const waiting = transcript.queue.length;
  const runs = ["running", "interrupting"].includes(transcript.chat?.status ?? "");
  return [
    count === 0
      ? "Replaces this message."
      : `Replaces this message and the ${count === 1 ? "one" : count} below it.`,
    runs ? "Interrupts the running turn." : null,
    waiting > 0
      ? `Removes ${waiting === 1 ? "the queued message" : `${waiting} queued messages`}.`
      : null,
  ]
    .filter((each) => each !== null)
    .join(" ");
}
