/** What people read about the limit that ended a turn. Pure. */

import type { LimitReached } from "../api/types";

export function limitTitle({ name, maximum }: LimitReached): string {
  return `Stopped at the limit of ${amount(name, maximum)}`;
}

/** How much was used, of what, and how to continue. */
export function limitText({ name, scope, used, maximum }: LimitReached): string {
  const unit = name === "cost" ? "" : ` ${name}`;
  const event = `${SUBJECTS[scope]} used ${bare(name, used)} of ${bare(name, maximum)}${unit}.`;
  return `${event} ${REMEDIES[scope]}`;
}

const SUBJECTS: Readonly<Record<LimitReached["scope"], string>> = {
  run: "The run",
  turn: "The turn",
  chat: "The chat, with its subagents,",
  user: "Its owner",
  day: "Its owner",
};

const REMEDIES: Readonly<Record<LimitReached["scope"], string>> = {
  run: "Continue, or send another message.",
  turn: "Continue to allow the same again, or send another message.",
  chat: "An administrator can raise it.",
  user: "An administrator can raise it.",
  day: "Continue tomorrow, or ask an administrator to raise it.",
};

function amount(name: LimitReached["name"], value: number): string {
  if (name === "cost") return bare(name, value);
  return `${bare(name, value)} ${value === 1 ? name.slice(0, -1) : name}`;
}

function bare(name: LimitReached["name"], value: number): string {
  if (name !== "cost") return value.toLocaleString("en", { maximumFractionDigits: 1 });
  return `$${value >= 0.1 ? value.toFixed(2) : Number(value.toPrecision(2))}`;
}
