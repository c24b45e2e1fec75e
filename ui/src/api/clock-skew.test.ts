import { afterEach, expect, it } from "vitest";
import { clockSkew, skewOf, updateClockSkew } from "./clock-skew";

afterEach(() => clockSkew.set(0));

const NOON = Date.parse("2026-11-17T12:00:00Z");

it("the skew is 0 within the accuracy of the header", () => {
  expect(skewOf(NOON, NOON + 400, NOON + 600)).toBe(0);
  expect(skewOf(NOON, NOON - 20, NOON + 90)).toBe(0);
  expect(skewOf(NOON, NOON - 5_000, NOON + 5_000)).toBe(0);
});

it("the skew is the difference of the clocks, to the second", () => {
  const wrong = 3_600_000;
  expect(skewOf(NOON, NOON + 400 - wrong, NOON + 600 - wrong)).toBe(wrong);
  expect(skewOf(NOON, NOON + 400 + wrong, NOON + 600 + wrong)).toBe(-wrong);
});

it("the skew is that of the last response with a date", () => {
  updateClockSkew("Tue, 17 Nov 2026 12:00:00 GMT", NOON - 60_000, NOON - 60_000);
  expect(clockSkew.get()).toBe(60_500);
  updateClockSkew(null, NOON, NOON);
  updateClockSkew("lately", NOON, NOON);
  expect(clockSkew.get()).toBe(60_500);
});
