import { expect, it } from "vitest";
import { call } from "../store/fixtures";
import type { Block, CallBlock } from "../store/rows";
import { itemsOf } from "./answer-items";

function readBlock(id: string, change: Partial<CallBlock> = {}): Block {
  return {
    type: "call",
    call: call(id, "read_file"),
    result: null,
    resultAt: null,
    live: null,
    action: null,
    writing: false,
    seconds: null,
    ...change,
  };
}

const TEXT: Block = { type: "text", text: "a", growing: false };
const source = (url: string): Block => ({ type: "source", source: { type: "source", url } });

it("consecutive calls that only read are one item", () => {
  const items = itemsOf([TEXT, readBlock("a"), readBlock("b"), TEXT, readBlock("c")]);
  expect(items.map(({ is, from }) => [is, from.length])).toEqual([
    ["text", 1],
    ["reads", 2],
    ["text", 1],
    ["call", 1],
  ]);
});

it("a read that waits for a person is its own item", () => {
  const action = {
    kind: "approval",
    call: call("b", "read_file"),
    arguments: "",
    digest: "",
  } as const;
  const items = itemsOf([readBlock("a"), readBlock("b", { action }), readBlock("c")]);
  expect(items.map(({ is }) => is)).toEqual(["call", "call", "call"]);
});

it("sources are one item, each once", () => {
  const [item] = itemsOf([source("a"), source("b"), source("a")]);
  expect(item?.is === "sources" && item.sources.map(({ url }) => url)).toEqual(["a", "b"]);
});

it("an item keeps its key when another one is added", () => {
  const before = itemsOf([TEXT, readBlock("a")]).map(({ key }) => key);
  const after = itemsOf([TEXT, readBlock("a"), readBlock("b"), TEXT]).map(({ key }) => key);
  expect(after.slice(0, 2)).toEqual(before);
});
