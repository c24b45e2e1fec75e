/**
 * Incremental Markdown blocks of a growing text.
 *
 * What can no longer change is not read again: only the end of the text is. So an answer costs the
 * same for each piece however long it has become.
 */

import type { Token, Tokens } from "marked";
import { blockTokens } from "./markdown-lexer";

export interface Block {
  /** Exactly as it was written, with the empty lines behind it. */
  readonly raw: string;
  /** Of a part of an ordered list that does not begin here: the number of its first item. */
  readonly start?: number;
}

/** Longer lists are cut, so that the last item alone is read again while they grow. */
const ITEMS = 24;

export class BlockSplitter {
  #text = "";
  #finished: Block[] = [];
  /** Where what may still change begins. */
  #at = 0;
  #start: number | undefined;
  #all: readonly Block[] = [];

  /** Of a text that goes on where the last one ended, or of any other. */
  of(input: string): readonly Block[] {
    const text = input.includes("\r") ? input.replace(/\r\n|\r/g, "\n") : input;
    if (text === this.#text) return this.#all;
    if (!text.startsWith(this.#text.slice(0, this.#at))) this.#reset();
    this.#text = text;
    const unfinished = this.#cut(text.slice(this.#at));
    this.#all = [...this.#finished, ...unfinished];
    return this.#all;
  }

  #reset(): void {
    this.#finished = [];
    this.#at = 0;
    this.#start = undefined;
  }

  /** Moves what is settled to the finished blocks, and gives the rest. */
  #cut(tail: string): readonly Block[] {
    const { blocks, settled } = cut(tail, this.#start);
    for (const block of blocks.slice(0, settled)) {
      this.#finished.push(block);
      this.#at += block.raw.length;
    }
    const unfinished = blocks.slice(settled);
    this.#start = unfinished[0]?.start;
    return unfinished;
  }
}

interface CutResult {
  readonly blocks: readonly Block[];
  /** So many of them stay as they are, whatever follows. */
  readonly settled: number;
}

function cut(tail: string, start: number | undefined): CutResult {
  const blocks: Block[] = [];
  let rest = tail;
  let from = start;
  for (;;) {
    const piece = pieces(rest, from);
    blocks.push(...piece.blocks);
    if (piece.rest === null) break;
    rest = piece.rest.raw;
    from = piece.rest.start;
  }
  return { blocks, settled: Math.max(0, settledOf(blocks)) };
}

/**
 * A block is settled when another one follows that has a whole line. The first line of that one may
 * until then turn out to belong to the block before it: `#` begins a heading, `#1` does not.
 */
function settledOf(blocks: readonly Block[]): number {
  const last = blocks.at(-1);
  if (last === undefined) return 0;
  return blocks.length - (last.raw.trimStart().includes("\n") ? 1 : 2);
}

interface Pieces {
  readonly blocks: readonly Block[];
  /** Behind a list that was cut: it is read anew. */
  readonly rest: Block | null;
}

function pieces(text: string, start: number | undefined): Pieces {
  const blocks: Block[] = [];
  let at = 0;
  for (const token of blockTokens(text)) {
    const from = at;
    at += token.raw.length;
    if (token.type === "space" && blocks.length > 0) {
      const before = blocks[blocks.length - 1] as Block;
      blocks[blocks.length - 1] = { ...before, raw: before.raw + token.raw };
      continue;
    }
    const first = from === 0 ? start : undefined;
    if (isLong(token)) {
      const head = token.items.slice(0, ITEMS).reduce((sum, item) => sum + item.raw.length, 0);
      blocks.push(blockOf(text.slice(from, from + head), first));
      const next = token.ordered ? (first ?? Number(token.start)) + ITEMS : undefined;
      return { blocks, rest: blockOf(text.slice(from + head), next) };
    }
    blocks.push(blockOf(text.slice(from, at), first));
  }
  return { blocks, rest: null };
}

function isLong(token: Token): token is Tokens.List {
  return token.type === "list" && (token as Tokens.List).items.length > ITEMS;
}

function blockOf(raw: string, start: number | undefined): Block {
  return start === undefined ? { raw } : { raw, start };
}
