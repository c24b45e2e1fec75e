/** What an edit takes out, in words. Pure. */

import type { Stored } from "../api/types";
import type { Transcript } from "../store/transcript";

/** Messages that people see below one. */
export function below(messages: readonly Stored[], number: number): number {
  return messages.filter(
    ({ number: each, message }) =>
      each > number && message.visibility !== "model" && message.kind !== "results",
  ).length;
}

/** All that somebody should know before they say something else instead. */
export function replaced(transcript: Transcript, number: number): string {
  const count = below(transcript.messages, number);
  const waiting = transcript.queue.length;
  const runs = ["running", "interrupting"].includes(transcript.chat?.status ?? "");
  return [
    count === 0
      ? "Replaces this message."
      : `Replaces this message and the ${count === 1 ? "one" : count} below it.`,
    runs ? "Ends the turn that runs." : null,
    waiting > 0
      ? `Drops ${waiting === 1 ? "the queued message" : `${waiting} queued messages`}.`
      : null,
  ]
    .filter((each) => each !== null)
    .join(" ");
}
