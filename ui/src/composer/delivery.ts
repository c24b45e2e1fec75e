/** Delivery modes of a message (queue, steer, interrupt): keys, labels and hints. Pure. */

import type { Deliver, Pending, Status } from "../api/types";

export function isBusy(status: Status | null): boolean {
  return status === "running" || status === "interrupting";
}

/** Whether there is more than one way to send. */
export function hasChoice(status: Status | null): boolean {
  return isBusy(status) || status === "requires_action";
}

interface Keys {
  readonly key: string;
  readonly ctrlKey: boolean;
  readonly metaKey: boolean;
  readonly shiftKey: boolean;
  readonly altKey: boolean;
}

/**
 * The delivery mode of a key combination; null if it does not send. `coarse`: on touch screens
 * Enter is a new line, since there is no Shift to hold.
 */
export function deliveryOf(keys: Keys, coarse: boolean): Deliver | null {
  if (keys.key !== "Enter" || keys.altKey) return null;
  if (keys.ctrlKey || keys.metaKey) return keys.shiftKey ? "interrupt" : "steer";
  return keys.shiftKey || coarse ? null : "queue";
}

export interface DeliveryMode {
  readonly deliver: Deliver;
  readonly name: string;
  readonly about: string;
  readonly keys: string;
}

export function deliveryModes(status: Status | null): readonly DeliveryMode[] {
  const waits = status === "requires_action";
  return [
    {
      deliver: "queue",
      name: "Queue",
      keys: "Enter",
      about: waits
        ? "Delivered when the pending action is answered and the turn is over."
        : "Delivered when this turn is over.",
    },
    {
      deliver: "steer",
      name: "Steer",
      keys: "Ctrl+Enter",
      about: waits
        ? "Skips the pending action and delivers this."
        : "Delivered before the next step.",
    },
    {
      deliver: "interrupt",
      name: "Interrupt",
      keys: "Ctrl+Shift+Enter",
      about: waits
        ? "Interrupts the turn and its subagents, then delivers this."
        : "Interrupts the turn, then delivers this.",
    },
  ];
}

/** When a queued message is delivered, by its mode. */
export const DELIVERY_LABELS: Readonly<Record<Deliver, string>> = {
  queue: "after this turn",
  steer: "before the next step",
  interrupt: "now",
};

/** Hint for a chat that waits: until when a message is queued, and what steering skips. */
export function waitingHint(status: Status | null, actions: readonly Pending[]): string | null {
  if (status !== "requires_action") return null;
  const kinds = new Set(actions.map((action) => action.kind));
  const queued = (until: string, skipped: string) =>
    `A message is queued until ${until}; steering skips ${skipped}.`;
  if (kinds.has("approval")) return queued("you have answered", "the call");
  if (kinds.has("answer")) return queued("you have answered", "the question");
  if (kinds.has("client")) return queued("the client has answered", "the call");
  if (kinds.has("child")) return queued("the subagents are done", "waiting for them");
  return queued("the agent continues", "what it is waiting for");
}

export function placeholder(status: Status | null): string {
  switch (status) {
    case "running":
    case "interrupting":
    case "requires_action":
      return "Queue a message, or steer";
    case "error":
      return "Send a message to continue";
    default:
      return "Message, or / for commands";
  }
}
