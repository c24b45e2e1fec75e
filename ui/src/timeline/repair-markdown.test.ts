import { expect, it } from "vitest";
import { repairedMarkdown } from "./repair-markdown";

it.each([
  ["a **bold", "a **bold**"],
  ["a **", "a"],
  ["a *em", "a *em*"],
  ["**a *b", "**a *b***"],
  ["~~gone", "~~gone~~"],
  ["__strong", "__strong__"],
  ["snake_case", "snake_case"],
  ["2 * 3", "2 * 3"],
  ["`code", "`code`"],
  ["a `", "a "],
  ["``a ` b", "``a ` b``"],
  ["**a `b", "**a `b`**"],
  ["`**`", "`**`"],
  ["see [the docs", "see the docs"],
  ["see [the docs]", "see the docs"],
  ["see [the docs](https://exam", "see the docs"],
  ["see [the docs](https://example.com)", "see [the docs](https://example.com)"],
  ["a [1] b", "a [1] b"],
  ["![alt", ""],
  ["![alt](https://x", ""],
  ["**[text](https://x", "**text**"],
  ["\\*not", "\\*not"],
  ["done **bold** and `code`.", "done **bold** and `code`."],
])("closes what is open: %s", (raw, shown) => {
  expect(repairedMarkdown(raw)).toBe(shown);
});

it.each([
  ["Foo\n-", "Foo"],
  ["Foo\n==", "Foo"],
  ["Foo\n##", "Foo"],
  ["- a\n- ", "- a"],
  ["- a\n2.", "- a"],
  ["text\n``", "text"],
  ["42", "42"],
  ["#", ""],
])("leaves out a line that may become anything: %s", (raw, shown) => {
  expect(repairedMarkdown(raw)).toBe(shown);
});

it("leaves code as it is, except half of its closing fence", () => {
  expect(repairedMarkdown("```js\na **b\n``")).toBe("```js\na **b\n");
  expect(repairedMarkdown("```js\nlet [a")).toBe("```js\nlet [a");
});

it.each([
  ["| a", "| a|\n|---|"],
  ["| a | b |", "| a | b |\n|---|---|"],
  ["| a | b |\n|-", "| a | b |\n|---|---|"],
  ["| a | b |\n", "| a | b |\n|---|---|"],
])("shows the first line of a table as its head: %s", (raw, shown) => {
  expect(repairedMarkdown(raw)).toBe(shown);
});

it("closes marks in the last item of a list, not in the ones before it", () => {
  expect(repairedMarkdown("- a * b\n- c **d")).toBe("- a * b\n- c **d**");
});
