import { describe, expect, test } from "vitest";
import { parseJson, parseObject } from "./json-input";

describe("typed arguments", () => {
  test("are accepted if they are an object", () => {
    expect(parseObject('{"a": [1, null]}')).toEqual({ is: "good", value: { a: [1, null] } });
  });

  test.each(["[1]", "null", '"text"', "3"])("are not %s", (text) => {
    expect(parseObject(text)).toEqual({
      is: "bad",
      why: "Arguments must be a JSON object, in braces.",
    });
  });

  test("that are invalid JSON are refused with line and column", () => {
    const read = parseObject('{\n  "a": 1,\n  b: 2\n}');
    expect(read.is).toBe("bad");
    expect(read.is === "bad" && read.why).toMatch(/^This is not valid JSON: .*line 3, column 3/);
  });

  test("that are empty have their own error", () => {
    expect(parseJson("  ")).toEqual({ is: "bad", why: "Nothing entered yet." });
  });
});
