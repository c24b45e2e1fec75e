import { expect, it } from "vitest";
import { pretty } from "./pretty-json";

it("JSON is laid out, and what is none stays as it is", () => {
  expect(pretty('{"a":1}')).toBe('{\n  "a": 1\n}');
  expect(pretty("{oops")).toBe("{oops");
  expect(pretty("[not json]")).toBe("[not json]");
  expect(pretty("plain")).toBe("plain");
  expect(pretty("1.0")).toBe("1.0");
});
