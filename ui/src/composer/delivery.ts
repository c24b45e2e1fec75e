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
 * What the keys ask for; null when they only write. `coarse`: on a keyboard of glass Enter is a new
 * line, since there is no Shift to hold.
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
        ? "Delivered once its question is answered and the turn is over."
        : "Delivered when this turn is over.",
    },
    {
      deliver: "steer",
      name: "Steer",
      keys: "Ctrl+Enter",
      about: waits ? "Skips its question and delivers this." : "Delivered before the next step.",
    },
    {
      deliver: "interrupt",
      name: "Interrupt",
      keys: "Ctrl+Shift+Enter",
      about: waits
        ? "Also stops its subagents, then delivers this."
        : "Stops the turn, then delivers this.",
    },
  ];
}

/** Of a message that waits. */
export const DELIVERY_LABELS: Readonly<Record<Deliver, string>> = {
  queue: "after this turn",
  steer: "before the next step",
  interrupt: "now",
};

/** What it means for a message that the chat waits. That it does, and for whom, is said above. */
export function waitingHint(status: Status | null, actions: readonly Pending[]): string | null {
  if (status !== "requires_action") return null;
  const kinds = new Set(actions.map((action) => action.kind));
  const queued = (until: string, skipped: string) =>
    `A message is queued until ${until}; steering skips ${skipped}.`;
  if (kinds.has("approval") || kinds.has("answer")) return queued("you have answered", "that");
  if (kinds.has("client")) return queued("its program has answered", "that");
  if (kinds.has("child")) return queued("its subagents are done", "waiting for them");
  return queued("it continues", "what it is waiting for");
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
