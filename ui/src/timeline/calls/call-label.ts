/** Labels of tool calls: a verb and its object. Pure. */

import type { State } from "./call-state";
import { number, objects, text, type Values } from "./partial-json";

export interface Label {
  readonly verb: string;
  /** What the call acts on. */
  readonly object: string;
  /** Shown as code. */
  readonly isCode: boolean;
}

/** The verb while running, when done, and otherwise. */
type Verbs = readonly [doing: string, done: string, base: string];

const VERBS: Readonly<Record<string, Verbs>> = {
  execute: ["Running", "Ran", "Run"],
  read_file: ["Reading", "Read", "Read"],
  list_files: ["Listing", "Listed", "List"],
  search_files: ["Searching for", "Searched for", "Search for"],
  write_file: ["Writing", "Wrote", "Write"],
  edit_file: ["Editing", "Edited", "Edit"],
  ask_user: ["Asking", "Asked", "Ask"],
  spawn_agent: ["Starting a subagent:", "Started a subagent:", "Start a subagent:"],
  message_agent: ["Messaging a subagent:", "Messaged a subagent:", "Message a subagent:"],
  interrupt_agent: ["Interrupting a subagent", "Interrupted a subagent", "Interrupt a subagent"],
  list_agents: ["Listing subagents", "Listed subagents", "List subagents"],
  wait_agents: ["Waiting for", "Waited for", "Wait for"],
};

export function labelOf(tool: string, values: Values, state: State, toolLabel: string): Label {
  // A model may use any name, also `constructor`.
  const verbs = Object.hasOwn(VERBS, tool) ? VERBS[tool] : undefined;
  if (verbs === undefined) return labelOfOther(tool, state, toolLabel);
  const verb = verbs[state === "done" ? 1 : state === "running" || state === "writing" ? 0 : 2];
  return { verb, ...objectOf(tool, values) };
}

function labelOfOther(tool: string, state: State, toolLabel: string): Label {
  // The tool's own label is better than its name.
  if (toolLabel) return { verb: toolLabel, object: "", isCode: false };
  return { verb: state === "done" ? "Used" : "Use", object: tool, isCode: true };
}

function objectOf(tool: string, values: Values): { object: string; isCode: boolean } {
  const path = text(values, "path");
  switch (tool) {
    case "execute":
      return { object: oneLine(text(values, "command")), isCode: true };
    case "read_file":
      return { object: path + linesOf(values), isCode: true };
    case "list_files":
      return filesOf(within(text(values, "pattern"), path));
    case "search_files":
      return { object: within(text(values, "pattern"), path), isCode: true };
    case "ask_user":
      return { object: questionOf(values), isCode: false };
    case "spawn_agent":
      return { object: oneLine(text(values, "title") || text(values, "prompt")), isCode: false };
    case "message_agent":
      return { object: oneLine(text(values, "message")), isCode: false };
    case "wait_agents":
      return { object: counted(values.agents, "subagent"), isCode: false };
    default:
      return { object: path, isCode: true };
  }
}

function filesOf(which: string): { object: string; isCode: boolean } {
  return which === "" ? { object: "the files", isCode: false } : { object: which, isCode: true };
}

const LONGEST = 160;

export function oneLine(input: string): string {
  const line = input
    .slice(0, 4 * LONGEST)
    .replace(/\s+/g, " ")
    .trim();
  return line.length > LONGEST ? `${line.slice(0, LONGEST - 1)}…` : line;
}

function linesOf(values: Values): string {
  const offset = number(values, "offset") ?? 1;
  const limit = number(values, "limit");
  if (limit !== null) return `, lines ${offset}–${offset + limit - 1}`;
  return offset > 1 ? `, from line ${offset}` : "";
}

function within(what: string, path: string): string {
  const where = path === "" || path === "." ? "" : path;
  if (what === "") return where;
  return oneLine(where === "" ? what : `${what} in ${where}`);
}

function questionOf(values: Values): string {
  const [first, ...more] = objects(values, "questions").map((each) => text(each, "question"));
  if (first === undefined) return "";
  return oneLine(first) + (more.length > 0 ? ` (and ${more.length} more)` : "");
}

function counted(list: unknown, noun: string): string {
  const count = Array.isArray(list) ? list.length : 0;
  return count === 1 ? `1 ${noun}` : `${count} ${noun}s`;
}

const READ_TOOLS: ReadonlySet<string> = new Set(["read_file", "list_files", "search_files"]);

/** Whether a tool only reads: several such calls in a row are grouped. */
export function isReadCall(tool: string): boolean {
  return READ_TOOLS.has(tool);
}

/** The label of a group of reads; each file counts once. */
export function readsLabel(
  calls: readonly { readonly tool: string; readonly values: Values }[],
): string {
  const read = new Set<string>();
  let lists = 0;
  let searches = 0;
  for (const { tool, values } of calls) {
    if (tool === "read_file") read.add(text(values, "path"));
    else if (tool === "list_files") lists += 1;
    else searches += 1;
  }
  const parts = [
    read.size > 0 ? `read ${read.size === 1 ? "1 file" : `${read.size} files`}` : "",
    lists > 0 ? `listed ${lists === 1 ? "1 folder" : `${lists} folders`}` : "",
    searches > 0 ? `searched ${searches === 1 ? "once" : `${searches} times`}` : "",
  ].filter((each) => each !== "");
  const words = parts.join(", ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}
