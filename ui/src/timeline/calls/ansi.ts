/** ANSI colours in the output of commands. Loaded on demand. */

import { AnsiUp } from "ansi_up";
import { type Piece, piecesOf } from "../spans";

/** ANSI colours of a growing text. Colours without a CSS class are left out. */
export class AnsiColours {
  #texts: string[] = [];
  #pieces: (readonly Piece[])[] = [];
  /** Parser state after the finished parts: colours stay on across parts. */
  #parserAfter = newParser();

  /** Pieces of each part. Only the last part is parsed again. */
  of(parts: readonly string[]): readonly (readonly Piece[])[] {
    const last = parts.length - 1;
    const isSame = this.#texts.every((text, at) => at < last && text === parts[at]);
    if (!isSame) this.#reset();
    for (const part of parts.slice(this.#pieces.length, last)) {
      this.#texts.push(part);
      this.#pieces.push(colouredPieces(this.#parserAfter, part));
    }
    return [...this.#pieces, colouredPieces(copyOf(this.#parserAfter), parts[last] ?? "")];
  }

  #reset(): void {
    this.#texts = [];
    this.#pieces = [];
    this.#parserAfter = newParser();
  }
}

function newParser(): AnsiUp {
  const ansi = new AnsiUp();
  ansi.use_classes = true;
  ansi.escape_html = true;
  ansi.url_allowlist = {};
  return ansi;
}

function copyOf(ansi: AnsiUp): AnsiUp {
  return Object.assign(newParser(), ansi);
}

function colouredPieces(ansi: AnsiUp, text: string): readonly Piece[] {
  return piecesOf(ansi.ansi_to_html(text));
}
