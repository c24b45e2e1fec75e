import { describe, expect, test } from "vitest";
import {
  answersText,
  isAnswered,
  NO_ANSWER,
  type Question,
  questionsOf,
  withToggled,
} from "./ask-user";

function question(text: string, labels: readonly string[] = [], multiple = false): Question {
  const options = labels.map((label) => ({ label, description: "" }));
  return { question: text, header: "", options, multiple };
}

describe("what the agent reads", () => {
  test("is a line for each question", () => {
    const asked = [question("Which colour?", ["Red", "Blue"]), question("Your name?")];
    const said = [
      { chosen: ["Red"], text: "" },
      { chosen: [], text: "Ada" },
    ];
    expect(answersText(asked, said)).toBe(
      'Which colour? → Red\nYour name? → in their own words: "Ada"',
    );
  });

  test("lists several choices, then the free text", () => {
    const said = { chosen: ["tests", "docs"], text: "and a\n  changelog" };
    expect(answersText([question("What?")], [said])).toBe(
      'What? → tests, docs; in their own words: "and a changelog"',
    );
  });

  test('says "no answer", also for questions beyond the last answer', () => {
    const blank = { chosen: [], text: " \n" };
    expect(answersText([question("One?"), question("Two?")], [blank])).toBe(
      "One? → no answer\nTwo? → no answer",
    );
  });

  test("keeps each question on one line, with white space as on the server", () => {
    expect(answersText([question("  a\n\tb\u00a0c\x1fd\ufeffe ")], [NO_ANSWER])).toBe(
      "a b c d\ufeffe → no answer",
    );
  });
});

describe("the questions of an action", () => {
  test("have defaults for optional fields", () => {
    const text = JSON.stringify({ questions: [{ question: "Q?", options: [{ label: "A" }] }] });
    expect(questionsOf("ask_user", text)).toEqual([
      { question: "Q?", header: "", options: [{ label: "A", description: "" }], multiple: false },
    ]);
  });

  test.each([
    ["other", '{"questions":[{"question":"Q?"}]}'],
    ["ask_user", '{"questions":[]}'],
    ["ask_user", '{"questions":[{"options":[]}]}'],
    ["ask_user", '{"questions":[{"question":"Q?","options":[1]}]}'],
    ["ask_user", "no JSON"],
  ])("are none in %s %s", (tool, text) => {
    expect(questionsOf(tool, text)).toBeNull();
  });
});

describe("choosing", () => {
  test("another option replaces the first in a single choice", () => {
    const asked = question("Q?", ["a", "b"]);
    expect(withToggled(asked, { chosen: ["a"], text: "x" }, "b")).toEqual({
      chosen: ["b"],
      text: "x",
    });
  });

  test("several options keeps their order, and a second click removes one", () => {
    const asked = question("Q?", ["a", "b", "c"], true);
    const both = withToggled(asked, { chosen: ["c"], text: "" }, "a");
    expect(both.chosen).toEqual(["a", "c"]);
    expect(withToggled(asked, both, "c").chosen).toEqual(["a"]);
  });

  test("no option and writing nothing is no answer", () => {
    expect(isAnswered({ chosen: [], text: "  " })).toBe(false);
    expect(isAnswered({ chosen: ["a"], text: "" })).toBe(true);
    expect(isAnswered({ chosen: [], text: "words" })).toBe(true);
  });
});
