/** Headlines of pending actions, in one line. Pure. */

import type { Pending } from "../api/types";
import { escapeInvisible } from "../ui/invisible";
import { objectOrNull } from "./json-input";

/** The name of a tool, and its label for users (empty if it has none). */
export interface ToolName {
  readonly name: string;
  readonly label: string;
}

export function headline(
  kind: Pending["kind"],
  { name, label }: ToolName,
  again: boolean | undefined = false,
): string {
  const verb = escapeInvisible(label === "" || label === name ? `use ${name}` : label);
  switch (kind) {
    case "approval":
      return `The agent wants to ${verb}${again ? " again" : ""}`;
    case "answer":
      return "The agent has a question";
    case "client":
      return `The agent is waiting for the result of ${escapeInvisible(name)}`;
    case "child":
      return "A subagent is working on this";
  }
}

const LONGEST = 120;
/** Arguments that describe a call best, in this order. */
const MAIN_ARGUMENTS = ["command", "path", "file", "url", "query", "pattern", "prompt", "name"];

/** The most descriptive argument on one line; empty if there is none. */
export function mainArgument(text: string): string {
  const fields = objectOrNull(text) ?? {};
  const values = MAIN_ARGUMENTS.map((name) => fields[name]).concat(Object.values(fields));
  const main = values.find((value) => typeof value === "string" && value.trim() !== "");
  const line = typeof main === "string" ? escapeInvisible(main.trim().replace(/\s+/g, " ")) : "";
  return line.length > LONGEST ? `${line.slice(0, LONGEST - 1)}…` : line;
}

/** The chats that a call waits for. */
export function childChats(text: string): readonly string[] {
  const agents = objectOrNull(text)?.agents;
  return Array.isArray(agents) ? agents.filter((each) => typeof each === "string") : [];
}

/** Whether this error may mean that the action was answered elsewhere. */
export function mayBeAnsweredElsewhere(kind: string): boolean {
  return kind === "nothing_waits" || kind === "wrong_answer";
}

const CALM = 400;

/**
 * Whether a click is intentional: not the second of a double click, nor one on a card that has just
 * moved under the pointer because another one was answered. A click by key has no pointer.
 */
export function isIntentionalClick(detail: number, now: number, lastSettled: number): boolean {
  return detail === 0 || (detail === 1 && now - lastSettled >= CALM);
}

interface Pressed {
  readonly key: string;
  readonly repeat: boolean;
  readonly ctrlKey: boolean;
  readonly metaKey: boolean;
  readonly altKey: boolean;
}

/**
 * The letter pressed without modifiers; null otherwise. Repeats of a held key are ignored: by then
 * the next card has the focus, unread.
 */
export function pressedLetter({ key, repeat, ctrlKey, metaKey, altKey }: Pressed): string | null {
  if (repeat || ctrlKey || metaKey || altKey) return null;
  return /^[a-z]$/i.test(key) ? key.toUpperCase() : null;
}
