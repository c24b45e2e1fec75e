/** Markdown, as far as it is read at all: raw HTML is not, so that it stands there as text. */

import { Lexer, type Token, Tokenizer } from "marked";

class Plain extends Tokenizer {
  override html(): undefined {
    return undefined;
  }

  override tag(): undefined {
    return undefined;
  }

  /** What it would name may be used in another block, which is read apart. */
  override def(): undefined {
    return undefined;
  }
}

const OPTIONS = { gfm: true, breaks: false, tokenizer: new Plain() };

/** Blocks alone: what stands in them is read by whoever shows it, when it is shown. */
export function blockTokens(text: string): Token[] {
  return new Lexer(OPTIONS).blockTokens(text, []);
}

export function inlineTokens(text: string): Token[] {
  return new Lexer(OPTIONS).inlineTokens(text, []);
}
