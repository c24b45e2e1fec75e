/** Questions of the agent, and the answers it reads, as `holdfast.tools.ask_user` defines them. */

import { objectOrNull } from "./json-input";

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

/** The answer to a question. Without options and text, the question is unanswered. */
export interface QuestionAnswer {
  readonly chosen: readonly string[];
  readonly text: string;
}

export const NO_ANSWER: QuestionAnswer = { chosen: [], text: "" };

/** The questions of an action; null for another tool, also one that only has the same name. */
export function questionsOf(tool: string, text: string): readonly Question[] | null {
  if (tool !== ASK_USER) return null;
  const questions = objectOrNull(text)?.questions;
  if (!Array.isArray(questions) || questions.length === 0) return null;
  const read = questions.map(questionOf);
  return read.every((each) => each !== null) ? read : null;
}

function questionOf(value: unknown): Question | null {
  const record = recordOf(value);
  if (record === null || typeof record.question !== "string") return null;
  const options = record.options === undefined ? [] : optionsOf(record.options);
  if (options === null) return null;
  return {
    question: record.question,
    header: textOf(record.header),
    options,
    multiple: record.multiple === true,
  };
}

function optionsOf(value: unknown): readonly Option[] | null {
  if (!Array.isArray(value)) return null;
  const read = value.map((each) => {
    const record = recordOf(each);
    if (record === null || typeof record.label !== "string") return null;
    return { label: record.label, description: textOf(record.description) };
  });
  return read.every((each) => each !== null) ? read : null;
}

function recordOf(value: unknown): Record<string, unknown> | null {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : null;
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** The answers as text, one line per question. Questions beyond the last answer are unanswered. */
export function answersText(
  questions: readonly Question[],
  answers: readonly QuestionAnswer[],
): string {
  return questions
    .map(({ question }, at) => `${line(question)} ${answerText(answers[at] ?? NO_ANSWER)}`)
    .join("\n");
}

function answerText({ chosen, text }: QuestionAnswer): string {
  const parts = chosen.length > 0 ? [chosen.map(line).join(", ")] : [];
  if (line(text) !== "") parts.push(`in their own words: "${line(text)}"`);
  return parts.length > 0 ? `→ ${parts.join("; ")}` : "→ no answer";
}

// White space as Python defines it, which differs from `\s` in a few characters.
const SPACE =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are white space there
  /[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+/;

function line(text: string): string {
  return text
    .split(SPACE)
    .filter((word) => word !== "")
    .join(" ");
}

export function isAnswered({ chosen, text }: QuestionAnswer): boolean {
  return chosen.length > 0 || line(text) !== "";
}

/** The answer after a click on an option. Chosen options keep the order of the question. */
export function withToggled(
  question: Question,
  answer: QuestionAnswer,
  label: string,
): QuestionAnswer {
  if (!question.multiple) return { ...answer, chosen: [label] };
  const chosen = new Set(answer.chosen);
  if (!chosen.delete(label)) chosen.add(label);
  const labels = question.options.map((option) => option.label);
  return { ...answer, chosen: labels.filter((each) => chosen.has(each)) };
}
