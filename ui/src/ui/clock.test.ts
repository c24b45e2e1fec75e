import { expect, it } from "vitest";
import { secondsUntil } from "./clock";

it("counts whole seconds down to 0", () => {
  expect(secondsUntil(4_200, 1_000)).toBe(4);
  expect(secondsUntil(2_000, 1_000)).toBe(1);
  expect(secondsUntil(500, 1_000)).toBe(0);
});
