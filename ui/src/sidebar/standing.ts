/** How a chat stands, for whoever looks at the list. Pure. */

import type { Chat } from "../api/types";

export type Standing =
  | "working"
  | "stopping"
  | "waiting"
  | "failed"
  | "stopped"
  | "unread"
  | "idle";

export function standingOf(chat: Chat, isOpen = false): Standing {
  if (chat.status === "error" || chat.stranded) return "failed";
  if (chat.needs_me || waitsForOwner(chat)) return "waiting";
  if (chat.status === "running" || chat.status === "requires_action") return "working";
  if (chat.status === "interrupting") return "stopping";
  // What is on the screen has been read, whatever the server knows of it yet.
  if (chat.unread && !isOpen) return "unread";
  if (chat.outcome?.reason === "max_steps") return "stopped";
  return "idle";
}

/** For those who do not see the picture. Nothing for what is not worth a word. */
export const WORDS: Readonly<Record<Standing, string>> = {
  working: "working",
  stopping: "stopping",
  waiting: "waiting for you",
  failed: "failed",
  stopped: "stopped early",
  unread: "unread",
  idle: "",
};

/** The second line: what matters most of it. `usual`: the model that its agent has. */
export function saidOf(chat: Chat, usual: string | null = null): string {
  if (chat.status === "error") return chat.error?.message ?? "It failed.";
  if (chat.stranded) return `No worker knows the agent ${chat.agent}.`;
  if (chat.needs_me) return "Needs your answer";
  if (waitsForOwner(chat)) return "Waits for an answer";
  if (chat.retry !== null) return `Trying again, ${chat.retry.attempt + 1} of ${chat.retry.of}…`;
  if (chat.status === "running") return "Working…";
  if (chat.status === "requires_action") return "Waits for another agent";
  if (chat.status === "interrupting") return "Stopping…";
  if (chat.mine === false) return chat.owner_name ?? "Somebody else";
  if (chat.outcome?.reason === "max_steps") return "Stopped at its limit of steps";
  return modelName(chat.model ?? usual) ?? chat.agent;
}

/** Of somebody else's it is not known whom it waits for. One's own that needs nobody waits for a chat. */
function waitsForOwner(chat: Chat): boolean {
  return chat.status === "requires_action" && chat.mine === false;
}

/** Without the provider before it, which takes the room of what tells them apart. */
function modelName(model: string | null): string | null {
  return model?.split(/[/:]/).at(-1) || model;
}
