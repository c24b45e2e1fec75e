/** Headlines of pending actions, in one line. Pure. */

import type { Pending } from "../api/types";
import { escapeInvisible } from "../ui/invisible";
import { objectOrNull } from "./json-input";

/** How a tool is called by those who made it; its name when they said nothing. */
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
      return `The agent waits for the result of ${escapeInvisible(name)}`;
    case "child":
      return "Another chat is working on this";
  }
}

const LONGEST = 120;
/** Of the arguments, what says most about a call. */
const MAIN_ARGUMENTS = ["command", "path", "file", "url", "query", "pattern", "prompt", "name"];

/** The argument that says most, on one line; empty when none does. */
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

/** Whether the server may refuse it because it was answered elsewhere. */
export function mayBeAnsweredElsewhere(kind: string): boolean {
  return kind === "nothing_waits" || kind === "wrong_answer";
}

const CALM = 400;

/**
 * Whether a click is meant: not the second of a double click, nor one that lands on a card that
 * came under the pointer a moment ago because another one was answered. Keys have no pointer.
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
 * The letter that was pressed alone. One that is held down is pressed once: the next card has the
 * focus by the time that it repeats, and nobody has read it.
 */
export function pressedLetter({ key, repeat, ctrlKey, metaKey, altKey }: Pressed): string | null {
  if (repeat || ctrlKey || metaKey || altKey) return null;
  return /^[a-z]$/i.test(key) ? key.toUpperCase() : null;
}
