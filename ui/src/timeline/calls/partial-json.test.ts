import { describe, expect, it } from "vitest";
import { objects, text, valuesOf } from "./partial-json";

const WHOLE = {
  path: 'src/ä "quoted" \\ file.py',
  offset: 12,
  all: true,
  nothing: null,
  edits: [
    { old_text: "a\nb", new_text: "" },
    { old_text: "😀", new_text: "c" },
  ],
};

describe("incomplete arguments", () => {
  it("are parsed as far as possible, wherever they end", () => {
    const json = JSON.stringify(WHOLE);
    for (let at = 0; at < json.length; at += 1) {
      const values = valuesOf(json.slice(0, at));
      expect(WHOLE.path.startsWith(text(values, "path"))).toBe(true);
      for (const edit of objects(values, "edits")) expect(typeof edit).toBe("object");
    }
    expect(valuesOf(json)).toEqual(WHOLE);
  });

  it.each([
    ['{"command":"ls -l', { command: "ls -l" }],
    ['{"command":"a\\', { command: "a" }],
    ['{"command":"a\\u00', { command: "a" }],
    ['{"command":"a\\u00e4', { command: "aä" }],
    ['{"a":1', {}],
    ['{"a":1,"b"', { a: 1 }],
    ['{"a":[1,2', { a: [1] }],
    ['{"a":{"b":"c"', { a: { b: "c" } }],
    ['{"a": tru', {}],
    ["", {}],
    ["[1]", {}],
    ["nonsense", {}],
    ['{"raw":"two\nlines', { raw: "two\nlines" }],
  ])("of %s are %j", (json, values) => {
    expect(valuesOf(json)).toEqual(values);
  });

  it("cannot change prototypes", () => {
    valuesOf('{"__proto__":{"polluted":true},"x');
    expect(({} as Record<string, unknown>).polluted).toBeUndefined();
  });
});
