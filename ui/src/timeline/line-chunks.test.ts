import { expect, it } from "vitest";
import { lastChunks, lineChunks, textEnd } from "./line-chunks";

const lines = (many: number) => Array.from({ length: many }, (_, at) => `line ${at}\n`).join("");

it.each(["", "\n", "a", lines(64), `${lines(64)}x`, lines(200)])(
  "parts put together: %#",
  (text) => {
    expect(lineChunks(text).join("")).toBe(text);
    expect(lineChunks(text).length).toBeGreaterThan(0);
  },
);

it("while a text grows, all chunks except the last stay the same", () => {
  const before = lineChunks(lines(150));
  const after = lineChunks(`${lines(150)}more\nand more`);
  expect(after.slice(0, 2)).toEqual(before.slice(0, 2));
});

it("the end of a text starts with a line, and with the same one for a while", () => {
  const text = lines(4_000);
  const ending = textEnd(text, 20_000);
  expect(ending.length).toBeLessThanOrEqual(20_000);
  expect(ending).toMatch(/^line \d+\n/);
  expect(textEnd(`${text}x`, 20_000)).toBe(`${ending}x`);
  expect(textEnd("short", 20_000)).toBe("short");
  expect(textEnd("x".repeat(50_000), 20_000)).toHaveLength(10_000);
});

it("the last chunks know their first line, and stay while the text grows", () => {
  expect(lastChunks("", 2)).toEqual([{ line: 1, text: "" }]);
  expect(lastChunks(lines(10), 2).map(({ line }) => line)).toEqual([1]);
  const last = lastChunks(lines(200), 2);
  expect(last.map(({ line }) => line)).toEqual([129, 193]);
  expect(last[0]?.text).toMatch(/^line 128\n/);
  expect(lastChunks(`${lines(200)}more`, 2)[0]).toEqual(last[0]);
});
