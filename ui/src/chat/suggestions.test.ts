import { expect, test } from "vitest";
import type { Agent } from "../api/types";
import { isDemo, SUGGESTIONS, suggestionsFor } from "./suggestions";

const agent = (...names: string[]) =>
  ({ tools: names.map((name) => ({ name })) }) as unknown as Agent;

test("only what works with the agent's tools is suggested", () => {
  const names = suggestionsFor(agent("write_file")).map((each) => each.prompt);
  expect(names).toContain("write hello to notes.txt");
  expect(names).toContain("help");
  expect(names).not.toContain("list files, then search for TODO");
});

test("an agent with all tools gets all suggestions, and an unknown one those without tools", () => {
  const all = SUGGESTIONS.flatMap(({ needs = [] }) => needs);
  expect(suggestionsFor(agent(...all))).toEqual(SUGGESTIONS);
  expect(suggestionsFor(undefined).every(({ needs }) => needs === undefined)).toBe(true);
});

test("the demo is recognized by its name", () => {
  expect([isDemo("demo:demo"), isDemo("openai:demo"), isDemo(undefined)]).toEqual([
    true,
    false,
    false,
  ]);
});
