import { describe, expect, test } from "vitest";
import { childChats, headline, isIntentionalClick, mainArgument, pressedLetter } from "./wording";

describe("the headline", () => {
  test("uses the tool's label", () => {
    const tool = { name: "execute", label: "run a command" };
    expect(headline("approval", tool)).toBe("The agent wants to run a command");
  });

  test("says when the call would run again", () => {
    const tool = { name: "execute", label: "run a command" };
    expect(headline("approval", tool, true)).toBe("The agent wants to run a command again");
  });

  test("falls back to the name", () => {
    const tool = { name: "deploy", label: "deploy" };
    expect(headline("approval", tool)).toBe("The agent wants to use deploy");
  });
});

describe("the gist of the arguments", () => {
  test("is the most descriptive one, wherever it is", () => {
    expect(mainArgument('{"content":"hello","path":"notes.txt"}')).toBe("notes.txt");
  });

  test("is the first text otherwise, on one line and limited in length", () => {
    expect(mainArgument('{"n":1,"x":"a\\n  b"}')).toBe("a b");
    expect(mainArgument(JSON.stringify({ command: "x".repeat(500) }))).toHaveLength(120);
  });

  test("is empty when there is no text", () => {
    expect(mainArgument('{"n":1}')).toBe("");
    expect(mainArgument("no JSON")).toBe("");
  });
});

test("invisible characters are shown as escapes in approvals", () => {
  expect(mainArgument('{"command":"echo \\u202elanif\\u200b"}')).toBe("echo \\u202elanif\\u200b");
  const tool = { name: "de\u2066ploy", label: "" };
  expect(headline("approval", tool)).toBe("The agent wants to use de\\u2066ploy");
  expect(headline("client", tool)).toBe("The agent is waiting for the result of de\\u2066ploy");
});

describe("a click", () => {
  test("is intentional when it is a single click", () =>
    expect(isIntentionalClick(1, 10_000, 0)).toBe(true));
  test("is not intentional when it is the second of two", () =>
    expect(isIntentionalClick(2, 10_000, 0)).toBe(false));
  test("is not intentional right after another card was answered", () =>
    expect(isIntentionalClick(1, 10_000, 9_800)).toBe(false));
  test("by key is always intentional", () =>
    expect(isIntentionalClick(0, 10_000, 9_999)).toBe(true));
});

test("a call that waits for subagents names their chats", () => {
  expect(childChats('{"agents":["a","b"]}')).toEqual(["a", "b"]);
  expect(childChats("{}")).toEqual([]);
});

test("a letter counts once, however long it is held, and without modifiers", () => {
  const key = { key: "a", repeat: false, ctrlKey: false, metaKey: false, altKey: false };
  expect(pressedLetter(key)).toBe("A");
  expect(pressedLetter({ ...key, repeat: true })).toBeNull();
  expect(pressedLetter({ ...key, ctrlKey: true })).toBeNull();
  expect(pressedLetter({ ...key, key: "Enter" })).toBeNull();
});
