/**
 * Repairs the end of Markdown that is still streaming: open marks are closed, and incomplete ones
 * are left out until they are complete. Pure.
 */

/** How far from the end open marks are searched. */
const FARTHEST = 4_000;

export function repairedMarkdown(raw: string): string {
  if (isCode(raw)) return raw.replace(/\n {0,3}(`{1,2}|~{1,2})$/, "\n");
  const text = withoutStub(raw);
  const table = tableBegun(text);
  if (table !== null) return table;
  // Marks do not span an empty line or several list items.
  const from = Math.max(lastRun(text), text.length - FARTHEST);
  return text.slice(0, from) + withMarksClosed(text.slice(from));
}

function isCode(raw: string): boolean {
  return /^ {0,3}(`{3,}|~{3,})/.test(raw);
}

/** Removes a last line that may still become a rule, an item, a heading, a quotation or a fence. */
function withoutStub(raw: string): string {
  return raw.replace(/(^|\n) {0,3}(-+|=+|\*+|_+|\++|#+|>|`+|~+|\d{1,9}[.)]?) *$/, (line) => {
    const isNumber = /^\n? *\d+$/.test(line);
    // A number alone at the very start may well be the answer.
    return isNumber && !line.startsWith("\n") ? line : "";
  });
}

/** The first line of a possible table, completed to a table head; null if it is none. */
function tableBegun(text: string): string | null {
  const [head = "", ...more] = text.replace(/^\n+/, "").split("\n");
  if (!head.trimStart().startsWith("|") || more.length > 1) return null;
  const rule = more[0] ?? "";
  if (!/^[\s:|-]*$/.test(rule)) return null;
  const whole = head.trimEnd().endsWith("|") && head.trim().length > 1 ? head : `${head}|`;
  const columns = (whole.match(/(?<!\\)\|/g)?.length ?? 2) - 1;
  return columns < 1 ? "" : `${whole}\n|${"---|".repeat(columns)}`;
}

function lastRun(text: string): number {
  const blank = text.lastIndexOf("\n\n");
  const item = text.search(/\n[ \t]*(?:[-*+]|\d{1,9}[.)]|\|)[ \t][^\n]*$/);
  return Math.max(blank < 0 ? 0 : blank, item < 0 ? 0 : item + 1);
}

interface Open {
  readonly mark: string;
  readonly at: number;
}

const MARKS = /[\\`[!*_~]/g;

/** A run of text with each of its open marks closed. */
function withMarksClosed(run: string): string {
  const open: Open[] = [];
  let at = leadOf(run);
  for (;;) {
    MARKS.lastIndex = at;
    const mark = MARKS.exec(run);
    if (mark === null) return closing(run, open);
    const step = stepOver(run, mark.index, open);
    if (typeof step === "string") return closing(run.slice(0, mark.index) + step, open);
    at = mark.index + step;
  }
}

/** Characters to skip; or, for an incomplete element, the text that replaces it. */
function stepOver(run: string, at: number, open: Open[]): number | string {
  const rest = run.slice(at);
  if (rest.startsWith("\\")) return 2;
  const code = /^`+/.exec(rest)?.[0];
  if (code !== undefined) return endOfCode(rest, code) ?? openCode(rest, code);
  if (/^!?\[/.test(rest)) return endOfLink(rest) ?? openLink(rest);
  const mark = /^(\*\*\*|\*\*|\*|___|__|_|~~)/.exec(rest)?.[0];
  if (mark === undefined) return 1;
  toggleMark(open, mark, at, run);
  return mark.length;
}

/** Length of a list bullet, which is not a mark. */
function leadOf(run: string): number {
  return /^\s*(?:[-*+]|\d{1,9}[.)]) +/.exec(run)?.[0].length ?? 0;
}

function toggleMark(open: Open[], mark: string, at: number, run: string): void {
  const last = open.at(-1);
  if (last?.mark === mark && !/\s/.test(run[at - 1] ?? " ")) open.pop();
  else if (isOpening(run, at, mark)) open.push({ mark, at });
}

function isOpening(run: string, at: number, mark: string): boolean {
  const next = run[at + mark.length];
  if (next !== undefined && /\s/.test(next)) return false;
  const before = run[at - 1] ?? " ";
  return mark.startsWith("_") ? !/\w/.test(before) : true;
}

function endOfCode(rest: string, mark: string): number | null {
  const end = new RegExp(`(?<!\`)${mark}(?!\`)`).exec(rest.slice(mark.length));
  return end === null ? null : end.index + 2 * mark.length;
}

function openCode(rest: string, mark: string): string {
  const inner = rest.slice(mark.length).replace(/`+$/, "");
  return inner.trim() === "" ? "" : `${mark}${inner}${mark}`;
}

/** Length of a complete link, or of brackets that are none; null if it may still become a link. */
function endOfLink(rest: string): number | null {
  const text = /^!?\[(?:\\.|[^\]\\])*\]/.exec(rest)?.[0];
  if (text === undefined) return rest.includes("\n") || rest.length > 300 ? 1 : null;
  if (rest.length === text.length) return null;
  if (rest[text.length] !== "(") return text.length;
  const target = /^\((?:[^()\\\s]|\\.|\([^()]*\)|\s)*\)/.exec(rest.slice(text.length))?.[0];
  if (target !== undefined) return text.length + target.length;
  return rest.includes("\n") ? text.length : null;
}

/** The text of an incomplete link, without its URL. */
function openLink(rest: string): string {
  if (rest.startsWith("!")) return "";
  return /^\[((?:\\.|[^\]\\])*)/.exec(rest)?.[1] ?? "";
}

function closing(text: string, open: readonly Open[]): string {
  let result = text;
  for (const { mark } of [...open].reverse()) {
    const bare = result.trimEnd();
    // There is no text after the mark yet.
    result = bare.endsWith(mark) ? bare.slice(0, -mark.length).trimEnd() : bare + mark;
  }
  return result;
}
