import { expect, it } from "vitest";
import { call } from "../store/fixtures";
import type { Block, CallBlock } from "../store/rows";
import { itemsOf } from "./answer-items";

function looks(id: string, change: Partial<CallBlock> = {}): Block {
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

it("calls that only look, one after the other, are one item", () => {
  const items = itemsOf([TEXT, looks("a"), looks("b"), TEXT, looks("c")]);
  expect(items.map(({ is, from }) => [is, from.length])).toEqual([
    ["text", 1],
    ["looks", 2],
    ["text", 1],
    ["call", 1],
  ]);
});

it("a look that waits for somebody stands alone", () => {
  const action = {
    kind: "approval",
    call: call("b", "read_file"),
    arguments: "",
    digest: "",
  } as const;
  const items = itemsOf([looks("a"), looks("b", { action }), looks("c")]);
  expect(items.map(({ is }) => is)).toEqual(["call", "call", "call"]);
});

it("sources stand together, each once", () => {
  const [item] = itemsOf([source("a"), source("b"), source("a")]);
  expect(item?.is === "sources" && item.sources.map(({ url }) => url)).toEqual(["a", "b"]);
});

it("an item keeps its key when another one comes behind it", () => {
  const before = itemsOf([TEXT, looks("a")]).map(({ key }) => key);
  const after = itemsOf([TEXT, looks("a"), looks("b"), TEXT]).map(({ key }) => key);
  expect(after.slice(0, 2)).toEqual(before);
});
