import { describe, expect, it } from "vitest";
import { isPressed, keysOf } from "./key-combinations";

const none = { key: "", code: "", altKey: false, ctrlKey: false, metaKey: false, shiftKey: false };

describe("a combination", () => {
  it("has Cmd on a Mac where others have Ctrl", () => {
    const ctrl = { ...none, key: "k", ctrlKey: true };
    const cmd = { ...none, key: "k", metaKey: true };
    expect(isPressed(ctrl, "mod+k", false)).toBe(true);
    expect(isPressed(cmd, "mod+k", true)).toBe(true);
    expect(isPressed(ctrl, "mod+k", true)).toBe(false);
    expect(isPressed(cmd, "mod+k", false)).toBe(false);
  });

  it("does not match with additional modifiers", () => {
    expect(isPressed({ ...none, key: "K", ctrlKey: true, shiftKey: true }, "mod+k", false)).toBe(
      false,
    );
    expect(isPressed({ ...none, key: "n", altKey: true, ctrlKey: true }, "alt+n", false)).toBe(
      false,
    );
    expect(isPressed({ ...none, key: "n" }, "alt+n", false)).toBe(false);
  });

  it("with Alt matches the physical key, whatever letter it produces", () => {
    expect(isPressed({ ...none, key: "˜", code: "KeyN", altKey: true }, "alt+n", true)).toBe(true);
    expect(isPressed({ ...none, key: "ArrowUp", altKey: true }, "alt+arrowup", false)).toBe(true);
  });

  it("of a punctuation character may need Shift", () => {
    expect(isPressed({ ...none, key: "?", shiftKey: true }, "?", false)).toBe(true);
    expect(isPressed({ ...none, key: "?" }, "?", false)).toBe(true);
  });

  it("is shown with the labels of the platform", () => {
    expect(keysOf("Ctrl+K", false)).toEqual(["Ctrl", "K"]);
    expect(keysOf("Ctrl+K", true)).toEqual(["⌘", "K"]);
  });
});
