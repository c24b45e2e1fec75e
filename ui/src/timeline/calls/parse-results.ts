/** Parsed results of the bundled tools. Pure. */

import type { ToolResult } from "../../api/types";

export function textOf(result: ToolResult | null): string {
  if (result === null) return "";
  return result.content.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n");
}

/** The text of a result, with ANSI colours if it has any. */
export function colouredTextOf(result: ToolResult | null): string {
  const metadata = result?.metadata?.holdfast;
  const coloured =
    typeof metadata === "object" && metadata !== null && "coloured" in metadata
      ? metadata.coloured
      : null;
  return typeof coloured === "string" ? coloured : textOf(result);
}

export interface CommandResult {
  readonly output: string;
  /** Null if it was killed or did not end. */
  readonly code: number | null;
  readonly seconds: number | null;
  /** Other notes about how the command ended. */
  readonly notes: readonly string[];
}

/** Parses the output of a command and the bracketed lines after it. */
export function commandResult(text: string): CommandResult {
  const lines = text.split("\n");
  const notes: string[] = [];
  let code: number | null = null;
  let seconds: number | null = null;
  for (;;) {
    const note = /^\[(.*)\]$/.exec(lines.at(-1) ?? "")?.[1];
    if (note === undefined) break;
    const end = /^(?:exit code (-?\d+)|(killed.*)), ([\d.]+) s$/.exec(note);
    if (end === null && !END_NOTE.test(note)) break;
    lines.pop();
    if (end?.[1] === undefined) notes.unshift(end?.[2] ?? note);
    else code = Number(end[1]);
    if (end !== null) seconds = Number(end[3]);
  }
  const output = lines.join("\n");
  return { output: output === "(no output)" ? "" : output, code, seconds, notes };
}

const END_NOTE =
  /^(time limit of|interrupted after|\d+ process|\d+ of its processes|the process that looks)/;

export interface NumberedLine {
  readonly number: number;
  readonly text: string;
}

export interface FileLines {
  readonly lines: readonly NumberedLine[];
  /** Text that is not a line of the file. */
  readonly words: readonly string[];
}

export function readLines(text: string): FileLines {
  const lines: NumberedLine[] = [];
  const words: string[] = [];
  for (const line of text.split("\n")) {
    const match = /^ *(\d+)\t(.*)$/.exec(line);
    if (match === null) words.push(line.replace(/^\[(.*)\]$/, "$1"));
    else lines.push({ number: Number(match[1]), text: match[2] ?? "" });
  }
  return { lines, words: words.filter((each) => each !== "") };
}

export interface FileMatches {
  readonly path: string;
  readonly lines: readonly (NumberedLine & { readonly isMatch: boolean })[];
}

export interface SearchMatches {
  readonly files: readonly FileMatches[];
  readonly words: readonly string[];
}

/** Matches by file. */
export function searchMatches(text: string): SearchMatches {
  const files: { path: string; lines: (NumberedLine & { isMatch: boolean })[] }[] = [];
  const words: string[] = [];
  for (const line of text.split("\n")) {
    const match = /^(.+?)([:-])(\d+)\2 (.*)$/.exec(line);
    if (match === null) {
      if (line !== "--" && line !== "") words.push(line);
      continue;
    }
    const [, path = "", mark, number, lineText = ""] = match;
    if (files.at(-1)?.path !== path) files.push({ path, lines: [] });
    files.at(-1)?.lines.push({ number: Number(number), text: lineText, isMatch: mark === ":" });
  }
  return { files, words };
}

/** The id of the chat that `spawn_agent` created; null if there is none. */
export function spawnedChat(text: string): string | null {
  try {
    const { agent } = JSON.parse(text) as { agent?: unknown };
    return typeof agent === "string" ? agent : null;
  } catch {
    return null;
  }
}
