/** A long text in chunks of lines: while it grows, only the last chunk changes. Pure. */

const LINES = 64;

/** Chunks of a text; at least one, which may be empty. */
export function lineChunks(text: string): readonly string[] {
  const parts: string[] = [];
  let at = 0;
  do {
    const end = endOf(text, at);
    parts.push(text.slice(at, end));
    at = end;
  } while (at < text.length);
  return parts;
}

/** Index after the next `LINES` lines. */
function endOf(text: string, from: number): number {
  let at = from;
  for (let lines = 0; lines < LINES; lines += 1) {
    const next = text.indexOf("\n", at);
    if (next < 0) return text.length;
    at = next + 1;
  }
  return at;
}

export interface LineChunk {
  /** Number of its first line, from 1. */
  readonly line: number;
  readonly text: string;
}

/** The last chunks of a text. A chunk is dropped only when a whole new one has arrived. */
export function lastChunks(text: string, most: number): readonly LineChunk[] {
  const parts = lineChunks(text);
  const from = Math.max(0, parts.length - most);
  return parts.slice(from).map((part, at) => ({ line: (from + at) * LINES + 1, text: part }));
}

/** Characters left out at a time, so that the visible start does not move with each piece. */
const STEP = 20_000;

/** The end of a text, from the start of a line if possible. */
export function textEnd(text: string, longest: number): string {
  if (text.length <= longest) return text;
  const from = Math.ceil((text.length - longest) / STEP) * STEP;
  const line = text.indexOf("\n", from) + 1;
  return text.slice(line === 0 || line === text.length ? from : line);
}
