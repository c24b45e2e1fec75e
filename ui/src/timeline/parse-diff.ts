/** Parser of unified diffs. Pure. */

export type Mark = "added" | "removed" | "same" | "words";

export interface Line {
  readonly mark: Mark;
  readonly text: string;
  /** Line numbers before and after; null where the line does not exist. */
  readonly old: number | null;
  readonly new: number | null;
}

export interface Patch {
  /** File name; empty if the diff has none. */
  readonly file: string;
  readonly isNew: boolean;
  readonly lines: readonly Line[];
  readonly added: number;
  readonly removed: number;
}

/** Whether a text contains a diff. */
export function isPatch(text: string): boolean {
  return /^@@ -\d+(,\d+)? \+\d+(,\d+)? @@/m.test(text);
}

export interface PatchWithLead {
  /** The line before the diff; may be empty. */
  readonly words: string;
  readonly patch: string;
}

/** A text that is only a diff, with at most one line before it; null for any other text. */
export function patchWithLead(text: string): PatchWithLead | null {
  const match = /^(?:(.*)\n)?(--- .*\n\+\+\+ .*\n@@ -[\s\S]*)$/.exec(text);
  return match === null ? null : { words: match[1] ?? "", patch: match[2] ?? "" };
}

/** The diffs of a text, one per file. Text before the first is left out. */
export function parsedPatches(text: string): readonly Patch[] {
  const parsers: PatchParser[] = [];
  let from = "";
  for (const line of text.split("\n")) {
    const last = parsers.at(-1);
    if (last?.take(line)) continue;
    if (line.startsWith("--- ")) from = fileNameOf(line);
    else if (line.startsWith("+++ "))
      parsers.push(new PatchParser(fileNameOf(line), from === "/dev/null"));
    else if (line.startsWith("@@ ")) {
      // Some tools leave out the file header.
      if (last === undefined) parsers.push(new PatchParser("", false));
      parsers.at(-1)?.begin(line);
    } else if (last !== undefined && line.trim() !== "" && !/^(diff|index) /.test(line)) {
      last.addText(line);
    }
  }
  return parsers.map((each) => each.patch());
}

function fileNameOf(head: string): string {
  const name = head.slice(4).split("\t")[0] ?? "";
  return name.replace(/^[ab]\//, "");
}

/** One file of a diff while it is read. */
class PatchParser {
  readonly #file: string;
  readonly #isNew: boolean;
  readonly #lines: Line[] = [];
  #old = 0;
  #new = 0;
  /** Lines of the hunk that are still to come, before and after. */
  #oldLeft = 0;
  #newLeft = 0;

  constructor(file: string, isNew: boolean) {
    this.#file = file;
    this.#isNew = isNew;
  }

  begin(head: string): void {
    const match = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/.exec(head);
    if (match === null) return;
    const [, oldAt, oldCount = "1", newAt, newCount = "1"] = match;
    this.#old = Number(oldAt);
    this.#new = Number(newAt);
    this.#oldLeft = Number(oldCount);
    this.#newLeft = Number(newCount);
    if (this.#lines.length > 0) this.addText("⋯");
  }

  addText(text: string): void {
    this.#lines.push({ mark: "words", text, old: null, new: null });
  }

  /** Whether the line belongs to the hunk: a removed `-- x` looks like the head of a file. */
  take(line: string): boolean {
    if (line.startsWith("\\")) {
      this.addText(line.slice(1).trim());
      return true;
    }
    if (this.#oldLeft <= 0 && this.#newLeft <= 0) return false;
    const text = line.slice(1);
    switch (line[0] ?? " ") {
      case "+":
        this.#push("added", text);
        return true;
      case "-":
        this.#push("removed", text);
        return true;
      case " ":
        this.#push("same", text);
        return true;
      default: // the hunk is incomplete
        this.#oldLeft = 0;
        this.#newLeft = 0;
        return false;
    }
  }

  #push(mark: Mark, text: string): void {
    const isOld = mark !== "added";
    const isNew = mark !== "removed";
    this.#lines.push({ mark, text, old: isOld ? this.#old : null, new: isNew ? this.#new : null });
    if (isOld) {
      this.#old += 1;
      this.#oldLeft -= 1;
    }
    if (isNew) {
      this.#new += 1;
      this.#newLeft -= 1;
    }
  }

  patch(): Patch {
    const count = (mark: Mark) => this.#lines.filter((line) => line.mark === mark).length;
    return {
      file: this.#file,
      isNew: this.#isNew,
      lines: this.#lines,
      added: count("added"),
      removed: count("removed"),
    };
  }
}
