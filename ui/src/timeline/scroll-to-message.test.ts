import { expect, it } from "vitest";
import type { Row } from "../store/rows";
import { messageNumberIn, rowKeysFor } from "./scroll-to-message";

it.each([
  ["#m12", 12],
  ["", null],
  ["#m", null],
  ["#token=m12", null],
  ["#m12x", null],
])("the address that ends with %j names %j", (hash, number) => {
  expect(messageNumberIn(hash)).toBe(number);
});

const rows = [2, 5, 9].map((number) => ({ key: `m${number}` }) as Row);

it("a message is in its own row, else in one before it", () => {
  expect(rowKeysFor(rows, 5)).toEqual(["m5", "m2"]);
  expect(rowKeysFor(rows, 7)).toEqual(["m5", "m2"]);
});

it("a message before all rows is searched in the first", () => {
  expect(rowKeysFor(rows, 1)).toEqual(["m2"]);
});
