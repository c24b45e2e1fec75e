import { describe, expect, it } from "vitest";
import { limitText, limitTitle } from "./limit";

describe("the limit that ended a turn", () => {
  it("is named with its unit", () => {
    const turn = { scope: "turn", used: 2 } as const;
    expect(limitTitle({ ...turn, name: "steps", maximum: 100 })).toBe(
      "Stopped at the limit of 100 steps",
    );
    expect(limitTitle({ ...turn, name: "steps", maximum: 1 })).toMatch(/ 1 step$/);
    expect(limitTitle({ ...turn, name: "tokens", maximum: 200_000 })).toMatch(/ 200,000 tokens$/);
    expect(limitTitle({ ...turn, name: "cost", maximum: 1.5 })).toMatch(/ \$1\.50$/);
    expect(limitTitle({ ...turn, name: "cost", maximum: 0.0012 })).toMatch(/ \$0\.0012$/);
    expect(limitTitle({ ...turn, name: "seconds", maximum: 60 })).toMatch(/ 60 seconds$/);
  });

  it("is shown with how much was used, and how to continue", () => {
    const limit = { name: "tokens", scope: "turn", used: 120_000, maximum: 100_000 } as const;
    expect(limitText(limit)).toBe(
      "The turn used 120,000 of 100,000 tokens. Continue to allow the same again, or send another " +
        "message.",
    );
    expect(limitText({ ...limit, name: "cost", scope: "day", used: 2.25, maximum: 2 })).toBe(
      "Its owner used $2.25 of $2.00. Continue tomorrow, or ask an administrator to raise it.",
    );
  });
});
