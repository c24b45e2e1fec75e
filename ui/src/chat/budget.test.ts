import { describe, expect, test } from "vitest";
import type { BudgetReport } from "../api/types";
import { budgetLines } from "./budget";

type State = BudgetReport["day"];
const used = (values: Partial<NonNullable<State["used"]>>) => ({
  steps: 0,
  tokens: 0,
  cost: 0,
  seconds: 0,
  ...values,
});
const state = (limits: State["limits"], values = {}): State => ({
  limits,
  used: used(values),
  is_set: false,
});

describe("what is left of the budgets", () => {
  test("has a line for each limit that is set", () => {
    const lines = budgetLines({
      chat: state({ tokens: 1000 }, { tokens: 250 }),
      day: state({ cost: 5, steps: 10 }, { cost: 4.5, steps: 1 }),
      user: state(null, { cost: 40 }),
    });
    expect(lines.map(({ name, left, level }) => [name, left, level])).toEqual([
      ["This chat: tokens", "750 of 1.0k", "calm"],
      ["Today: cost", "$0.50 of $5.00", "near"],
      ["Today: steps", "9 of 10", "calm"],
    ]);
    expect(lines[0]?.share).toBe(0.25);
  });

  test("is nothing once more was used than allowed", () => {
    const [line] = budgetLines({
      chat: state({ seconds: 60 }, { seconds: 61.4 }),
      day: state({}),
      user: state(null),
    });
    expect(line).toEqual({
      name: "This chat: seconds",
      left: "0 s of 60 s",
      share: 1,
      level: "full",
    });
  });

  test("has no lines without limits", () => {
    const none = { ...state(null), used: null };
    expect(budgetLines({ chat: none, day: state({}), user: state(null) })).toEqual([]);
  });
});
