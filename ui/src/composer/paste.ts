/** Decides whether pasted content becomes text or files. Pure. */

const LONG_LINES = 10;
const LONG_TEXT = 1_000;

/** A long text is easier to handle as a file beside the message. */
export function isLong(text: string): boolean {
  return text.length >= LONG_TEXT || text.split("\n").length >= LONG_LINES;
}

export type PasteAction = "files" | "attach" | "inline";

/**
 * What to do with a paste. Programs that copy a table or a page add a picture of it: the text wins.
 * `asText`: pasted with Ctrl+Shift+V, so that a long text stays in the message.
 */
export function pasteAction(text: string, files: number, asText: boolean): PasteAction {
  if (files > 0 && text.trim() === "") return "files";
  return !asText && isLong(text) ? "attach" : "inline";
}

/** The first free file name for pasted text. */
export function pastedName(usedNames: readonly string[]): string {
  const names = new Set(usedNames);
  for (let number = 1; ; number += 1) {
    const name = number === 1 ? "pasted.txt" : `pasted-${number}.txt`;
    if (!names.has(name)) return name;
  }
}
