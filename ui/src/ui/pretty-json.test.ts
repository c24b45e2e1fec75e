import { expect, it } from "vitest";
import { prettyJson } from "./pretty-json";

it("JSON is indented, and other text stays as it is", () => {
  expect(prettyJson('{"a":1}')).toBe('{\n  "a": 1\n}');
  expect(prettyJson("{oops")).toBe("{oops");
  expect(prettyJson("[not json]")).toBe("[not json]");
  expect(prettyJson("plain")).toBe("plain");
  expect(prettyJson("1.0")).toBe("1.0");
});
