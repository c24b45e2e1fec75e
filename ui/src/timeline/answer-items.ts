/** The items of an answer: adjacent blocks of a kind are grouped. Pure. */

import type { File, Source } from "../api/types";
import type { Block, CallBlock } from "../store/rows";
import { isReadCall } from "./calls/call-label";

interface Common {
  readonly key: string;
  readonly from: readonly Block[];
}

export type Item = Common &
  (
    | { readonly is: "text"; readonly block: Block & { type: "text" } }
    | { readonly is: "reasoning"; readonly block: Block & { type: "reasoning" } }
    | { readonly is: "call"; readonly block: CallBlock }
    | { readonly is: "reads"; readonly blocks: readonly CallBlock[] }
    | { readonly is: "files"; readonly files: readonly File[] }
    | { readonly is: "sources"; readonly sources: readonly Source[] }
  );

export function itemsOf(blocks: readonly Block[]): readonly Item[] {
  const items: Item[] = [];
  for (let at = 0; at < blocks.length; ) {
    const group = groupAt(blocks, at);
    // By index: blocks are only added at the end.
    items.push(itemOf(group, String(at)));
    at += group.length;
  }
  return items;
}

function groupAt(blocks: readonly Block[], at: number): readonly Block[] {
  const first = blocks[at] as Block;
  let end = at + 1;
  while (end < blocks.length && belongs(first, blocks[end] as Block)) end += 1;
  return blocks.slice(at, end);
}

function belongs(first: Block, other: Block): boolean {
  if (first.type === "call") return isGroupedRead(first) && isGroupedRead(other);
  return first.type === other.type && (first.type === "file" || first.type === "source");
}

/** Whether a call can join a group: one that waits for a person cannot. */
export function isGroupedRead(block: Block): block is CallBlock {
  return block.type === "call" && isReadCall(block.call.tool) && block.action === null;
}

function itemOf(from: readonly Block[], key: string): Item {
  const block = from[0] as Block;
  switch (block.type) {
    case "text":
      return { is: "text", key, from, block };
    case "reasoning":
      return { is: "reasoning", key, from, block };
    case "file":
      return {
        is: "files",
        key,
        from,
        files: from.flatMap((b) => (b.type === "file" ? [b.file] : [])),
      };
    case "source":
      return {
        is: "sources",
        key,
        from,
        sources: unique(from.flatMap((b) => (b.type === "source" ? [b.source] : []))),
      };
    case "call":
      if (from.length === 1) return { is: "call", key, from, block };
      return { is: "reads", key, from, blocks: from.filter((each) => each.type === "call") };
  }
}

function unique(sources: readonly Source[]): readonly Source[] {
  const seen = new Set<string>();
  return sources.filter(({ url }) => !seen.has(url) && seen.add(url));
}
