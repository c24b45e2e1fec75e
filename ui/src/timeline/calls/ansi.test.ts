import { expect, it } from "vitest";
import type { Piece } from "../spans";
import { AnsiColours } from "./ansi";

const RED = "\u001b[31m";
const PLAIN = "\u001b[0m";

const red = (text: string): Piece => ({ look: "ansi-red-fg", inner: [text] });

it("a colour that was switched on in one part is on in the next", () => {
  const colours = new AnsiColours();
  const made = colours.of([`${RED}a\n`, "b\n", `${PLAIN}c`]);
  expect(made).toEqual([[red("a\n")], [red("b\n")], ["c"]]);
});

it("the last part alone is made again while it grows", () => {
  const colours = new AnsiColours();
  const before = colours.of([`${RED}a\n`, "b"]);
  const now = colours.of([`${RED}a\n`, "bc"]);
  expect(now[0]).toBe(before[0]);
  expect(now).toEqual([[red("a\n")], [red("bc")]]);
});

it("what begins elsewhere is another text", () => {
  const colours = new AnsiColours();
  colours.of([`${RED}a\n`, "b\n", "c"]);
  expect(colours.of(["b\n", "c"])).toEqual([["b\n"], ["c"]]);
  expect(colours.of(["c"])).toEqual([["c"]]);
});

it("what looks like HTML is text", () => {
  expect(new AnsiColours().of(["<b>&"])).toEqual([["<b>&"]]);
});
