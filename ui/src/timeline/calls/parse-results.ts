/** Parsed results of the bundled tools. Pure. */

import type { ToolResult } from "../../api/types";

export function textOf(result: ToolResult | null): string {
  if (result === null) return "";
  return result.content.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n");
}

/** As people see it: in its colours, where it had any. */
export function shownOf(result: ToolResult | null): string {
  const kept = result?.metadata?.holdfast;
  const coloured =
    typeof kept === "object" && kept !== null && "coloured" in kept ? kept.coloured : null;
  return typeof coloured === "string" ? coloured : textOf(result);
}

export interface Ended {
  readonly output: string;
  /** Null when it was killed, or never ended. */
  readonly code: number | null;
  readonly seconds: number | null;
  /** Anything else that was said about its end. */
  readonly notes: readonly string[];
}

/** The lines in brackets behind the output of a command. */
export function executed(text: string): Ended {
  const lines = text.split("\n");
  const notes: string[] = [];
  let code: number | null = null;
  let seconds: number | null = null;
  for (;;) {
    const note = /^\[(.*)\]$/.exec(lines.at(-1) ?? "")?.[1];
    if (note === undefined) break;
    const end = /^(?:exit code (-?\d+)|(killed.*)), ([\d.]+) s$/.exec(note);
    if (end === null && !ABOUT_ITS_END.test(note)) break;
    lines.pop();
    if (end?.[1] === undefined) notes.unshift(end?.[2] ?? note);
    else code = Number(end[1]);
    if (end !== null) seconds = Number(end[3]);
  }
  const output = lines.join("\n");
  return { output: output === "(no output)" ? "" : output, code, seconds, notes };
}

const ABOUT_ITS_END =
  /^(time limit of|interrupted after|\d+ process|\d+ of its processes|the process that looks)/;

export interface Numbered {
  readonly number: number;
  readonly text: string;
}

export interface Read {
  readonly lines: readonly Numbered[];
  /** Text that is not a line of the file. */
  readonly words: readonly string[];
}

export function readLines(text: string): Read {
  const lines: Numbered[] = [];
  const words: string[] = [];
  for (const line of text.split("\n")) {
    const found = /^ *(\d+)\t(.*)$/.exec(line);
    if (found === null) words.push(line.replace(/^\[(.*)\]$/, "$1"));
    else lines.push({ number: Number(found[1]), text: found[2] ?? "" });
  }
  return { lines, words: words.filter((each) => each !== "") };
}

export interface Found {
  readonly path: string;
  readonly lines: readonly (Numbered & { readonly isMatch: boolean })[];
}

export interface Searched {
  readonly files: readonly Found[];
  readonly words: readonly string[];
}

/** By file. */
export function searched(text: string): Searched {
  const files: { path: string; lines: (Numbered & { isMatch: boolean })[] }[] = [];
  const words: string[] = [];
  for (const line of text.split("\n")) {
    const found = /^(.+?)([:-])(\d+)\2 (.*)$/.exec(line);
    if (found === null) {
      if (line !== "--" && line !== "") words.push(line);
      continue;
    }
    const [, path = "", mark, number, said = ""] = found;
    if (files.at(-1)?.path !== path) files.push({ path, lines: [] });
    files.at(-1)?.lines.push({ number: Number(number), text: said, isMatch: mark === ":" });
  }
  return { files, words };
}

/** Of the result of `spawn_agent`: the chat that was begun. */
export function spawned(text: string): string | null {
  try {
    const { agent } = JSON.parse(text) as { agent?: unknown };
    return typeof agent === "string" ? agent : null;
  } catch {
    return null;
  }
}
