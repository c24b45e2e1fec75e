/** The state of a tool call, with its label and explanation. Pure. */

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

type CallFacts = Pick<CallBlock, "result" | "action" | "live" | "writing">;

export function stateOf({ result, action, live, writing }: CallFacts): State {
  if (result !== null) return stateOfOutcome(result.outcome ?? "ok");
  // A child chat needs no person.
  if (action !== null) return action.kind === "child" ? "running" : "waiting";
  if (live?.running) return "running";
  return writing ? "writing" : "starting";
}

function stateOfOutcome(outcome: string): State {
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
    default: // superseded by an edit or a fork
      return "dropped";
  }
}

export const STATE_LABELS: Readonly<Record<State, string>> = {
  writing: "writing",
  waiting: "waiting for an answer",
  starting: "starting",
  running: "running",
  done: "done",
  failed: "failed",
  refused: "denied",
  interrupted: "interrupted",
  lost: "lost",
  skipped: "skipped",
  timed_out: "timed out",
  dropped: "superseded",
};

/** Explanations of states whose label is not enough. */
export const STATE_MEANINGS: Readonly<Partial<Record<State, string>>> = {
  lost: "Outcome unknown: the worker died while this was running.",
  skipped: "Not run: a new message changed the plan.",
  dropped: "The chat was edited or forked before this finished.",
};

export function isOver(state: State): boolean {
  return !["writing", "waiting", "starting", "running"].includes(state);
}

export function isBad(state: State): boolean {
  return ["failed", "lost", "timed_out"].includes(state);
}
