/** A long text in chunks of lines: while it grows, only the last chunk changes. Pure. */

const LINES = 64;

/** One part at least, be it empty. */
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

/** Behind so many lines. */
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
  /** The line at which it begins, from 1 on. */
  readonly line: number;
  readonly text: string;
}

/** The last so many parts. Another one goes only when a whole one has come. */
export function lastChunks(text: string, most: number): readonly LineChunk[] {
  const parts = lineChunks(text);
  const from = Math.max(0, parts.length - most);
  return parts.slice(from).map((part, at) => ({ line: (from + at) * LINES + 1, text: part }));
}

/** How much is left out at a time, so that what is shown does not begin elsewhere with each piece. */
const STEP = 20_000;

/** The end of a text, from the beginning of a line if there is any. */
export function textEnd(text: string, longest: number): string {
  if (text.length <= longest) return text;
  const from = Math.ceil((text.length - longest) / STEP) * STEP;
  const line = text.indexOf("\n", from) + 1;
  return text.slice(line === 0 || line === text.length ? from : line);
}
