/** How a call stands, from all that is known of it. Pure. */

import type { CallBlock } from "../../store/rows";

export type State =
  | "writing"
  | "waiting"
  | "starting"
  | "running"
  | "done"
  | "failed"
  | "refused"
  | "interrupted"
  | "lost"
  | "skipped"
  | "timed_out"
  | "dropped";

type Known = Pick<CallBlock, "result" | "action" | "live" | "writing">;

export function stateOf({ result, action, live, writing }: Known): State {
  if (result !== null) return ended(result.outcome ?? "ok");
  // Nobody has to do anything for what an agent does.
  if (action !== null) return action.kind === "child" ? "running" : "waiting";
  if (live?.running) return "running";
  return writing ? "writing" : "starting";
}

function ended(outcome: string): State {
  switch (outcome) {
    case "ok":
      return "done";
    case "failed":
    case "refused":
    case "interrupted":
    case "lost":
    case "skipped":
    case "timed_out":
      return outcome;
    default: // an edit or a fork took its place
      return "dropped";
  }
}

export const WORDS: Readonly<Record<State, string>> = {
  writing: "writing",
  waiting: "needs an answer",
  starting: "starting",
  running: "running",
  done: "done",
  failed: "failed",
  refused: "refused",
  interrupted: "interrupted",
  lost: "lost",
  skipped: "skipped",
  timed_out: "timed out",
  dropped: "not run here",
};

/** What a state means where the word alone does not tell. */
export const MEANINGS: Readonly<Partial<Record<State, string>>> = {
  lost: "Nobody knows whether it ran: what ran it stopped without a word.",
  skipped: "It was not run, because something before it changed the plan.",
  dropped: "The chat was edited or forked before it ended.",
};

export function isOver(state: State): boolean {
  return !["writing", "waiting", "starting", "running"].includes(state);
}

export function isBad(state: State): boolean {
  return ["failed", "lost", "timed_out"].includes(state);
}
