/** Prompts that show what the demo model can do. Pure. */

import type { Agent } from "../api/types";

export interface Suggestion {
  readonly name: string;
  readonly prompt: string;
  /** The tools it needs. */
  readonly needs?: readonly string[];
}

export const SUGGESTIONS: readonly Suggestion[] = [
  { name: "Reasoning, then text", prompt: "think about trees, then show markdown" },
  {
    name: "Tools on a directory",
    prompt: "list files, then search for TODO",
    needs: ["list_files", "search_files"],
  },
  {
    name: "A write that needs your approval",
    prompt: "write hello to notes.txt",
    needs: ["write_file"],
  },
  {
    name: "A question for you",
    prompt: "ask me Which colour: red, green or blue",
    needs: ["ask_user"],
  },
  { name: "A long answer to stop or steer", prompt: "long answer of 2,000 words" },
  { name: "Errors and retries", prompt: "fail 2 times with rate limit" },
  { name: "A summary: type /compact after the answer", prompt: "long answer of 400 words" },
  { name: "Everything it understands", prompt: "help" },
];

export function isDemo(model: string | null | undefined): boolean {
  return model?.startsWith("demo:") ?? false;
}

/** Those that work with what the agent has. */
export function suggestionsFor(agent: Agent | undefined): readonly Suggestion[] {
  const tools = new Set(agent?.tools.map((tool) => tool.name));
  return SUGGESTIONS.filter(({ needs = [] }) => needs.every((tool) => tools.has(tool)));
}
