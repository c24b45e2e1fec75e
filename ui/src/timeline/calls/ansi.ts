/** ANSI colours in the output of commands. Loaded on demand. */

import { AnsiUp } from "ansi_up";
import { type Piece, piecesOf } from "../spans";

/** Colours that have no name are left out. */
export class Colours {
  #texts: string[] = [];
  #made: (readonly Piece[])[] = [];
  /** As it is behind the parts that are made: what was switched on there stays on. */
  #behind = begun();

  /** Of parts of which all but the last stay as they are: those are not read again. */
  of(parts: readonly string[]): readonly (readonly Piece[])[] {
    const last = parts.length - 1;
    const isSame = this.#texts.every((text, at) => at < last && text === parts[at]);
    if (!isSame) this.#forget();
    for (const part of parts.slice(this.#made.length, last)) {
      this.#texts.push(part);
      this.#made.push(inColours(this.#behind, part));
    }
    return [...this.#made, inColours(copied(this.#behind), parts[last] ?? "")];
  }

  #forget(): void {
    this.#texts = [];
    this.#made = [];
    this.#behind = begun();
  }
}

function begun(): AnsiUp {
  const ansi = new AnsiUp();
  ansi.use_classes = true;
  ansi.escape_html = true;
  ansi.url_allowlist = {};
  return ansi;
}

function copied(ansi: AnsiUp): AnsiUp {
  return Object.assign(begun(), ansi);
}

function inColours(ansi: AnsiUp, text: string): readonly Piece[] {
  return piecesOf(ansi.ansi_to_html(text));
}
