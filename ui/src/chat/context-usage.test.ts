import { describe, expect, test } from "vitest";
import type { Agent, Model, Snapshot, Spent } from "../api/types";
import {
  contextUsageOf,
  costWords,
  percent,
  statusLabelOf,
  tokensIn,
  unpricedWords,
  usesMore,
} from "./context-usage";

const AGENT = { model: "a:own", window: 1000, threshold: 80, compacts_at: 800 } as Agent;
const model = (name: string, window: number | null) => ({ name, window }) as Model;
const spent = (calls: number, unpriced: number, usage: Spent["usage"] = {}): Spent => ({
  usage,
  calls,
  unpriced,
});

describe("the meter", () => {
  test("shows the used share of the window, and the compaction threshold", () => {
    expect(contextUsageOf(250, AGENT, model("a:own", 1000))).toEqual({
      used: 250,
      window: 1000,
      threshold: 800,
      share: 0.25,
      thresholdShare: 0.8,
      level: "calm",
    });
  });

  test("uses the same share of another model's window", () => {
    expect(contextUsageOf(1, AGENT, model("a:other", 500))?.threshold).toBe(400);
  });

  test("is unknown before the first answer", () => {
    expect(contextUsageOf(null, AGENT, model("a:own", 1000))).toBeNull();
    expect(contextUsageOf(undefined, AGENT, undefined)).toBeNull();
  });

  test("shows the used tokens when the window is unknown", () => {
    const fill = contextUsageOf(250, AGENT, model("a:other", null));
    expect(fill).toMatchObject({ used: 250, window: null, share: null, level: "unknown" });
    expect(contextUsageOf(250, AGENT, undefined)?.level).toBe("unknown");
  });

  test("has no threshold when the agent never compacts", () => {
    const never = { ...AGENT, threshold: null, compacts_at: null };
    const fill = contextUsageOf(900, never, model("a:own", 1000));
    expect(fill).toMatchObject({ threshold: null, thresholdShare: null, level: "near" });
  });

  test("warns near the threshold and at the end of the window, and never exceeds it", () => {
    expect(contextUsageOf(719, AGENT, model("a:own", 1000))?.level).toBe("calm");
    expect(contextUsageOf(720, AGENT, model("a:own", 1000))?.level).toBe("near");
    expect(contextUsageOf(5000, AGENT, model("a:own", 1000))).toMatchObject({
      share: 1,
      level: "full",
    });
  });

  test('rounds small values up to "under 1%"', () => {
    expect(percent(0.001)).toBe("under 1%");
    expect(percent(0)).toBe("0%");
    expect(percent(0.256)).toBe("26%");
  });
});

describe("usage", () => {
  test("counts cached tokens as input", () => {
    expect(tokensIn(spent(1, 0, { input: 1, cache_read: 10, cache_write: 100 }))).toBe(111);
  });

  test("says how many calls have no price", () => {
    expect(costWords(spent(3, 0, { cost: 0.5 }))).toBe("$0.50");
    expect(costWords(spent(3, 0, { cost: 0 }))).toBe("$0");
    expect(costWords(spent(3, 3))).toBe("unknown");
    expect(costWords(spent(0, 0))).toBe("$0");
    expect(unpricedWords(spent(0, 0))).toBeNull();
    expect(unpricedWords(spent(3, 0))).toBeNull();
    expect(unpricedWords(spent(3, 3))).toBe("No price is known for these calls.");
    expect(unpricedWords(spent(3, 1))).toBe(
      "1 call has no known price and is not included in the cost.",
    );
    expect(unpricedWords(spent(3, 2))).toBe(
      "2 calls have no known price and are not included in the cost.",
    );
  });

  test("of subagents is shown when there is any", () => {
    expect(usesMore(spent(3, 0), spent(3, 0))).toBe(false);
    expect(usesMore(spent(4, 0), spent(3, 0))).toBe(true);
  });
});

describe("the status of a chat", () => {
  const chat = (more: Partial<Snapshot>) =>
    ({ status: "idle", retry: null, compaction: null, outcome: null, ...more }) as Snapshot;

  test.each([
    [{ status: "idle" }, false, "chat", "Ready"],
    [{ status: "idle", outcome: { reason: "stop" } }, false, "chat", "Done"],
    [{ status: "idle", outcome: { reason: "interrupted" } }, false, "chat", "Interrupted"],
    [{ status: "running" }, false, "chat", "Working"],
    [{ status: "running" }, true, "chat", "Stopping…"],
    [{ status: "running", compaction: "person" }, false, "chat", "Summarizing"],
    [{ status: "requires_action" }, false, "me", "Waiting for you"],
    [{ status: "requires_action" }, false, "owner", "Waiting for the owner"],
    [{ status: "requires_action" }, false, "chat", "Waiting for a subagent"],
    [{ status: "error" }, false, "chat", "Stopped by an error"],
    [{ status: "running", stranded: true }, false, "chat", "No worker for this agent"],
  ] as const)("%o is said in words", (more, stopping, waitsFor, words) => {
    expect(statusLabelOf(chat(more as Partial<Snapshot>), stopping, waitsFor).words).toBe(words);
  });
});
