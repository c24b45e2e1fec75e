import { expect, it } from "vitest";
import type { Piece } from "../spans";
import { AnsiColours } from "./ansi";

const RED = "\u001b[31m";
const PLAIN = "\u001b[0m";

const red = (text: string): Piece => ({ look: "ansi-red-fg", inner: [text] });

it("a colour stays on in the next part", () => {
  const colours = new AnsiColours();
  const made = colours.of([`${RED}a\n`, "b\n", `${PLAIN}c`]);
  expect(made).toEqual([[red("a\n")], [red("b\n")], ["c"]]);
});

it("only the last part is parsed again while it grows", () => {
  const colours = new AnsiColours();
  const before = colours.of([`${RED}a\n`, "b"]);
  const now = colours.of([`${RED}a\n`, "bc"]);
  expect(now[0]).toBe(before[0]);
  expect(now).toEqual([[red("a\n")], [red("bc")]]);
});

it("a text with another start is parsed anew", () => {
  const colours = new AnsiColours();
  colours.of([`${RED}a\n`, "b\n", "c"]);
  expect(colours.of(["b\n", "c"])).toEqual([["b\n"], ["c"]]);
  expect(colours.of(["c"])).toEqual([["c"]]);
});

it("HTML in the output is text", () => {
  expect(new AnsiColours().of(["<b>&"])).toEqual([["<b>&"]]);
});
