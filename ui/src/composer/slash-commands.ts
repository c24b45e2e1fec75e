/** Slash commands: names, descriptions, matching, and when each is available. Pure. */

import type { Snapshot, Status } from "../api/types";

export type CommandName =
  | "compact"
  | "model"
  | "effort"
  | "fork"
  | "rename"
  | "archive"
  | "export markdown"
  | "export jsonl"
  | "retry"
  | "resume"
  | "stop"
  | "help";

/** The status of a chat as commands see it. `limit`: idle, after a turn that ended at a limit. */
export type CommandStatus = Status | "limit";

export function commandStatusOf(
  status: Status | null,
  chat: Snapshot | null,
): CommandStatus | null {
  return status === "idle" && chat?.outcome?.reason === "limit" ? "limit" : status;
}

export interface Command {
  readonly name: CommandName;
  readonly about: string;
  /** Statuses in which it is available (all if absent), and the hint for the others. */
  readonly when?: readonly CommandStatus[];
  readonly unless?: string;
}

const WHEN_IDLE: readonly CommandStatus[] = ["idle", "limit", "error"];

export const COMMANDS: readonly Command[] = [
  {
    name: "compact",
    about: "Summarize the conversation to make room",
    when: WHEN_IDLE,
    unless: "when the turn is over",
  },
  { name: "model", about: "Choose the model" },
  { name: "effort", about: "Choose how hard the model thinks" },
  { name: "fork", about: "Continue from here in a new chat" },
  { name: "rename", about: "Change the chat's title" },
  {
    name: "archive",
    about: "Archive the chat",
    when: WHEN_IDLE,
    unless: "when the turn is over",
  },
  { name: "export markdown", about: "Save the chat as Markdown" },
  { name: "export jsonl", about: "Save the chat as JSON Lines, to import it elsewhere" },
  { name: "retry", about: "Retry the failed turn", when: ["error"], unless: "after an error" },
  { name: "resume", about: "Continue after a limit", when: ["limit"], unless: "after a limit" },
  {
    name: "stop",
    about: "Stop the agent, and keep what it did",
    when: ["running", "interrupting", "requires_action"],
    unless: "while the agent is working",
  },
  { name: "help", about: "List all commands" },
];

/** The text after the slash if it may be a command; null otherwise. */
export function commandQuery(text: string): string | null {
  return /^\/[a-z ]*$/i.test(text) ? text.slice(1).trimEnd().toLowerCase() : null;
}

/** Matching commands, best first: by start of the name, of a word in it, of the description. */
export function matchingCommands(query: string, commands = COMMANDS): readonly Command[] {
  const ranked = commands.map((command) => ({ command, rank: rank(command, query) }));
  return ranked
    .filter((each) => each.rank < NO)
    .sort((one, other) => one.rank - other.rank)
    .map((each) => each.command);
}

const NO = 3;

function rank({ name, about }: Command, query: string): number {
  if (name.startsWith(query)) return 0;
  if (name.split(" ").some((word) => word.startsWith(query))) return 1;
  const words = about.toLowerCase().split(/\W+/);
  return query.length > 2 && words.some((word) => word.startsWith(query)) ? 2 : NO;
}

/** Why a command is unavailable now; null if it is available. */
export function whyUnavailable(
  { when, unless }: Command,
  status: CommandStatus | null,
): string | null {
  return when === undefined || (status !== null && when.includes(status)) ? null : (unless ?? "");
}

/** The next index in a list that wraps around. */
export function wrappedIndex(at: number, by: 1 | -1, count: number): number {
  return count === 0 ? 0 : (at + by + count) % count;
}
