/** Questions of the agent, and the answers it reads, as `holdfast.tools.ask_user` defines them. */

import { objectIn } from "./json-input";

export const ASK_USER = "ask_user";

export interface Option {
  readonly label: string;
  readonly description: string;
}

export interface Question {
  readonly question: string;
  readonly header: string;
  readonly options: readonly Option[];
  /** Several options may be chosen. */
  readonly multiple: boolean;
}

/** What a person said to a question. Neither of the two: they did not answer it. */
export interface Said {
  readonly chosen: readonly string[];
  readonly text: string;
}

export const SILENCE: Said = { chosen: [], text: "" };

/** The questions of an action; null for another tool, also one that only has the same name. */
export function questionsOf(tool: string, text: string): readonly Question[] | null {
  if (tool !== ASK_USER) return null;
  const asked = objectIn(text)?.questions;
  if (!Array.isArray(asked) || asked.length === 0) return null;
  const read = asked.map(questionOf);
  return read.every((each) => each !== null) ? read : null;
}

function questionOf(value: unknown): Question | null {
  const given = recordOf(value);
  if (given === null || typeof given.question !== "string") return null;
  const options = given.options === undefined ? [] : optionsOf(given.options);
  if (options === null) return null;
  return {
    question: given.question,
    header: textOf(given.header),
    options,
    multiple: given.multiple === true,
  };
}

function optionsOf(value: unknown): readonly Option[] | null {
  if (!Array.isArray(value)) return null;
  const read = value.map((each) => {
    const given = recordOf(each);
    if (given === null || typeof given.label !== "string") return null;
    return { label: given.label, description: textOf(given.description) };
  });
  return read.every((each) => each !== null) ? read : null;
}

function recordOf(value: unknown): Record<string, unknown> | null {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : null;
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** A line for each question. One beyond the last answer was not answered. */
export function answered(asked: readonly Question[], said: readonly Said[]): string {
  return asked
    .map(({ question }, at) => `${line(question)} ${words(said[at] ?? SILENCE)}`)
    .join("\n");
}

function words({ chosen, text }: Said): string {
  const said = chosen.length > 0 ? [chosen.map(line).join(", ")] : [];
  if (line(text) !== "") said.push(`in their own words: "${line(text)}"`);
  return said.length > 0 ? `→ ${said.join("; ")}` : "→ no answer";
}

// What Python takes for white space: a few more characters than `\s`, and one less.
const SPACE =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are white space there
  /[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+/;

function line(text: string): string {
  return text
    .split(SPACE)
    .filter((word) => word !== "")
    .join(" ");
}

export function isAnswered({ chosen, text }: Said): boolean {
  return chosen.length > 0 || line(text) !== "";
}

/** An option was clicked. The order of the options is kept, whatever the order of the clicks. */
export function toggled(question: Question, said: Said, label: string): Said {
  if (!question.multiple) return { ...said, chosen: [label] };
  const on = new Set(said.chosen);
  if (!on.delete(label)) on.add(label);
  const labels = question.options.map((option) => option.label);
  return { ...said, chosen: labels.filter((each) => on.has(each)) };
}
