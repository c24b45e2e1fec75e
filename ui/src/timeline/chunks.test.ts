import { describe, expect, it } from "vitest";
import { answer, call, prompt } from "../store/fixtures";
import type { Block, Row } from "../store/rows";
import { Chunks, countUnseen, stretches } from "./chunks";

function promptRow(number: number): Row {
  return { kind: "prompt", key: `m${number}`, stored: prompt(number, "x") };
}

function readRow(number: number, id = `c${number}`): Row {
  return answerRow(number, [callOf(id, "read_file")]);
}

function callOf(id: string, tool: string): Block {
  return {
    type: "call",
    call: call(id, tool, {}),
    result: null,
    resultAt: null,
    live: null,
    action: null,
    writing: false,
    seconds: null,
  };
}

function answerRow(number: number, blocks: readonly Block[], model: string | null = null): Row {
  const stored = answer(number, "x", { model });
  return { kind: "answer", key: `m${number}`, stored, blocks, turn: null, isCut: false };
}

const TEXT: Block = { type: "text", text: "a", growing: false };

function rows(from: number, to: number): Row[] {
  return Array.from({ length: to - from + 1 }, (_, at) => promptRow(from + at));
}

describe("stretches", () => {
  it("have the same chunks, in order, when earlier messages load", () => {
    const chunks = new Chunks();
    const before = stretches(chunks.of(rows(1_000, 2_000), null));
    const after = stretches(chunks.of(rows(1, 2_000), null));
    expect([...before.keys()]).toEqual([2, 3, 4, 5]);
    expect([...after.keys()]).toEqual([0, 1, 2, 3, 4, 5]);
    expect(after.get(3)?.map(({ key }) => key)).toEqual(before.get(3)?.map(({ key }) => key));
    expect([...after.values()].flat().flatMap(({ rows: all }) => all)).toHaveLength(2_000);
  });
});

describe("groups of rows", () => {
  it("stay the same objects when a row is added at the end", () => {
    const chunks = new Chunks();
    const first = rows(1, 100);
    const before = chunks.of(first, null);
    const after = chunks.of([...first, promptRow(101)], null);
    expect(after.map(({ key }) => key)).toEqual(["g0", "g1", "g2"]);
    expect(after[0]).toBe(before[0]);
    expect(after[1]).toBe(before[1]);
    expect(after[2]).not.toBe(before[2]);
  });

  it("stay the same objects when earlier rows load", () => {
    const chunks = new Chunks();
    const shown = rows(100, 200);
    const before = chunks.of(shown, null);
    const after = chunks.of([...rows(50, 99), ...shown], null);
    expect(after.slice(-before.length + 1)).toEqual(before.slice(1));
    expect(after.at(-1)).toBe(before.at(-1));
    expect(after.find(({ key }) => key === "g3")).toBe(before.find(({ key }) => key === "g3"));
  });

  it("are the same objects except the last while an answer grows", () => {
    const chunks = new Chunks();
    const committed = rows(1, 90);
    const before = chunks.of(committed, answerRow(91, [TEXT]));
    const after = chunks.of(committed, answerRow(91, [{ ...TEXT, text: "ab" }]));
    expect(after.slice(0, -1)).toEqual(before.slice(0, -1));
    expect(after[1]).toBe(before[1]);
    expect(after.at(-1)?.rows.at(-1)?.key).toBe("m91");
  });

  it("are the same objects except that of a changed row", () => {
    const chunks = new Chunks();
    const before = chunks.of([...rows(1, 99), answerRow(100, [TEXT])], null);
    const now = [...rows(1, 99), answerRow(100, [TEXT, TEXT])].map((row, at) =>
      at < 99 ? (before.flatMap((chunk) => chunk.rows)[at] as Row) : row,
    );
    const after = chunks.of(now, null);
    expect(after.slice(0, -1)).toEqual(before.slice(0, -1));
    expect(after.slice(0, -1).every((chunk, at) => chunk === before[at])).toBe(true);
    expect(after).toEqual(new Chunks().of(now, null));
  });

  it("contain a growing answer in its later group", () => {
    const chunks = new Chunks();
    const growing = chunks.of(rows(1, 79), answerRow(80, [TEXT]));
    const committed = chunks.of([...rows(1, 79), answerRow(80, [TEXT])], null);
    expect(growing.map(({ key }) => key)).toEqual(committed.map(({ key }) => key));
  });
});

describe("answers that only read", () => {
  it("are one row, with the key of the first", () => {
    const [chunk] = new Chunks().of([promptRow(1), readRow(2), readRow(4), readRow(6)], null);
    expect(chunk?.rows.map(({ key }) => key)).toEqual(["m1", "m2"]);
    const last = chunk?.rows[1];
    expect(last?.kind === "answer" && last.blocks).toHaveLength(3);
  });

  it("are not merged with an answer that has text", () => {
    const talking = answerRow(4, [TEXT, callOf("x", "read_file")]);
    const [chunk] = new Chunks().of([readRow(2), talking, readRow(6)], null);
    expect(chunk?.rows.map(({ key }) => key)).toEqual(["m2", "m4", "m6"]);
  });

  it("are the same row while none of them changes", () => {
    const chunks = new Chunks();
    const committed = [readRow(2), readRow(4)];
    const before = chunks.of(committed, answerRow(6, [TEXT]))[0]?.rows[0];
    expect(chunks.of(committed, answerRow(6, [{ ...TEXT, text: "b" }]))[0]?.rows[0]).toBe(before);
  });
});

it("a group knows the model of the answer before it", () => {
  const chunks = new Chunks();
  const made = chunks.of(
    [answerRow(39, [TEXT], "a"), promptRow(40), answerRow(81, [TEXT], "b")],
    null,
  );
  expect(made.map(({ modelBefore }) => modelBefore)).toEqual([null, "a", "a"]);
});

it("rows after the last seen one are counted", () => {
  expect(countUnseen(rows(1, 9), 6)).toBe(3);
  expect(countUnseen(rows(1, 9), 9)).toBe(0);
  expect(countUnseen([], 4)).toBe(0);
});
