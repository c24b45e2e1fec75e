/**
 * Incremental Markdown blocks of a growing text.
 *
 * Only the end of the text, which may still change, is parsed again. So each piece costs the same,
 * however long the answer is.
 */

import type { Token, Tokens } from "marked";
import { blockTokens } from "./markdown-lexer";

export interface Block {
  /** Source text, with the empty lines after it. */
  readonly raw: string;
  /** For the continuation of an ordered list: the number of its first item. */
  readonly start?: number;
}

/** Longer lists are split, so that only the last part is parsed again while they grow. */
const ITEMS = 24;

export class BlockSplitter {
  #text = "";
  #finished: Block[] = [];
  /** Start of the text that may still change. */
  #at = 0;
  #start: number | undefined;
  #all: readonly Block[] = [];

  /** Blocks of a text, which is usually the last one with more at its end. */
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

  /** Moves settled blocks to the finished ones, and returns the rest. */
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
  /** Number of blocks that cannot change any more. */
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
 * Number of settled blocks. A block is settled when the next one has a complete line: until then,
 * that line may belong to the block before it (`#` starts a heading, `#1` does not).
 */
function settledOf(blocks: readonly Block[]): number {
  const last = blocks.at(-1);
  if (last === undefined) return 0;
  return blocks.length - (last.raw.trimStart().includes("\n") ? 1 : 2);
}

interface Pieces {
  readonly blocks: readonly Block[];
  /** The rest of a list that was split, which is parsed again. */
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
