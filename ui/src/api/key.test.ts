import { expect, test } from "vitest";
import { Keys } from "./key";

test("the same thing has the same key until it is done, and another thing another one", () => {
  const keys = new Keys();
  const first = keys.for({ name: "a" });
  expect(keys.for({ name: "a" })).toBe(first);
  expect(keys.for({ name: "b" })).not.toBe(first);
  const last = keys.for({ name: "b" });
  keys.done();
  expect(keys.for({ name: "b" })).not.toBe(last);
});
