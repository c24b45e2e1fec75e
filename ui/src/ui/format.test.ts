import { describe, expect, test } from "vitest";
import { shortTime } from "./format";

const HERE = new Date(2026, 10, 17, 18, 30);
const SAID = HERE.getTime() * 1000;

describe("shortTime", () => {
  test("is only the time on the same day", () => {
    expect(shortTime(SAID, new Date(2026, 10, 17, 23, 59).getTime())).toBe(
      HERE.toLocaleTimeString(undefined, { hour: "numeric", minute: "2-digit" }),
    );
  });

  test("has the date from the next day on, and the year from the next year on", () => {
    const nextDay = shortTime(SAID, new Date(2026, 10, 18, 0, 1).getTime());
    expect(nextDay).toContain("17");
    expect(nextDay).not.toContain("2026");
    expect(shortTime(SAID, new Date(2027, 0, 1).getTime())).toContain("2026");
  });
});
