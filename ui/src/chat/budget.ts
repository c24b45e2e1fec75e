/** What is left of the budgets that apply to a chat. Pure. */

import type { BudgetReport } from "../api/types";
import { cost, count } from "../ui/format";

type Scope = keyof BudgetReport;
type Limits = NonNullable<BudgetReport["day"]["limits"]>;

export interface BudgetLine {
  readonly name: string;
  /** As in "$1.20 of $5.00". */
  readonly left: string;
  readonly share: number;
  readonly level: "calm" | "near" | "full";
}

const SCOPES: readonly Scope[] = ["chat", "day", "user"];
const NAMES: Readonly<Record<Scope, string>> = {
  chat: "This chat",
  day: "Today",
  user: "All chats",
};
const LIMITS: readonly (keyof Limits)[] = ["cost", "tokens", "steps", "seconds"];
const NEAR = 0.8;

/** One line for each limit that is set. */
export function budgetLines(report: BudgetReport): readonly BudgetLine[] {
  return SCOPES.flatMap((scope) => {
    const { limits, used } = report[scope];
    if (!limits || !used) return [];
    return LIMITS.flatMap((limit) => {
      const maximum = limits[limit];
      return maximum == null ? [] : [line(scope, limit, used[limit], maximum)];
    });
  });
}

function line(scope: Scope, limit: keyof Limits, used: number, maximum: number): BudgetLine {
  const share = Math.min(1, used / maximum);
  const left = amount(limit, Math.max(0, maximum - used));
  return {
    name: `${NAMES[scope]}: ${limit}`,
    left: `${left} of ${amount(limit, maximum)}`,
    share,
    level: share >= 1 ? "full" : share >= NEAR ? "near" : "calm",
  };
}

function amount(limit: keyof Limits, value: number): string {
  if (limit === "cost") return cost(value);
  return limit === "seconds" ? `${count(Math.round(value))} s` : count(value);
}
