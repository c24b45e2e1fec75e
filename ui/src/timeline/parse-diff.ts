/** Parser of unified diffs. Pure. */

export type Mark = "added" | "removed" | "same" | "words";

export interface Line {
  readonly mark: Mark;
  readonly text: string;
  /** Where it stands in the file before and after; null where it is not. */
  readonly old: number | null;
  readonly new: number | null;
}

export interface Patch {
  /** Empty when the diff does not say. */
  readonly file: string;
  readonly isNew: boolean;
  readonly lines: readonly Line[];
  readonly added: number;
  readonly removed: number;
}

/** Whether there is any diff in a text. */
export function isPatch(text: string): boolean {
  return /^@@ -\d+(,\d+)? \+\d+(,\d+)? @@/m.test(text);
}

export interface PatchWithLead {
  /** A line that stands in front of it, or nothing. */
  readonly words: string;
  readonly patch: string;
}

/** A text that is a diff but for that line. Not one with a diff somewhere in it: it says more. */
export function patchWithLead(text: string): PatchWithLead | null {
  const found = /^(?:(.*)\n)?(--- .*\n\+\+\+ .*\n@@ -[\s\S]*)$/.exec(text);
  return found === null ? null : { words: found[1] ?? "", patch: found[2] ?? "" };
}

/** Of each file. What stands in front of the first one is left out. */
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
      // Without a head: some tools leave it out.
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
    const found = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/.exec(head);
    if (found === null) return;
    const [, oldAt, oldCount = "1", newAt, newCount = "1"] = found;
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
      default: // it was cut short
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
