/** The Markdown lexer. Raw HTML is not parsed: it stays text. */

import { Lexer, type Token, Tokenizer } from "marked";

class Plain extends Tokenizer {
  override html(): undefined {
    return undefined;
  }

  override tag(): undefined {
    return undefined;
  }

  /** Link definitions are ignored: blocks are parsed separately. */
  override def(): undefined {
    return undefined;
  }
}

const OPTIONS = { gfm: true, breaks: false, tokenizer: new Plain() };

/** Block tokens only: inline content is lexed when it is rendered. */
export function blockTokens(text: string): Token[] {
  return new Lexer(OPTIONS).blockTokens(text, []);
}

export function inlineTokens(text: string): Token[] {
  return new Lexer(OPTIONS).inlineTokens(text, []);
}
