import { describe, expect, test } from "vitest";
import { childChats, headline, isIntentionalClick, mainArgument, pressedLetter } from "./wording";

describe("the headline", () => {
  test("uses the words of whoever made the tool", () => {
    const tool = { name: "execute", label: "run a command" };
    expect(headline("approval", tool)).toBe("The agent wants to run a command");
  });

  test("says when it would be the second time", () => {
    const tool = { name: "execute", label: "run a command" };
    expect(headline("approval", tool, true)).toBe("The agent wants to run a command again");
  });

  test("falls back to the name", () => {
    const tool = { name: "deploy", label: "deploy" };
    expect(headline("approval", tool)).toBe("The agent wants to use deploy");
  });
});

describe("the gist of the arguments", () => {
  test("is the one that says most, wherever it stands", () => {
    expect(mainArgument('{"content":"hello","path":"notes.txt"}')).toBe("notes.txt");
  });

  test("is any text when none is known to say much, on one line and not too long", () => {
    expect(mainArgument('{"n":1,"x":"a\\n  b"}')).toBe("a b");
    expect(mainArgument(JSON.stringify({ command: "x".repeat(500) }))).toHaveLength(120);
  });

  test("is empty when there is no text", () => {
    expect(mainArgument('{"n":1}')).toBe("");
    expect(mainArgument("no JSON")).toBe("");
  });
});

test("characters that turn or hide text are spelled in what a person agrees to", () => {
  expect(mainArgument('{"command":"echo \\u202elanif\\u200b"}')).toBe("echo \\u202elanif\\u200b");
  const tool = { name: "de\u2066ploy", label: "" };
  expect(headline("approval", tool)).toBe("The agent wants to use de\\u2066ploy");
  expect(headline("client", tool)).toBe("The agent waits for the result of de\\u2066ploy");
});

describe("a click", () => {
  test("is meant when it stands alone", () => expect(isIntentionalClick(1, 10_000, 0)).toBe(true));
  test("is not meant when it is the second of two", () =>
    expect(isIntentionalClick(2, 10_000, 0)).toBe(false));
  test("is not meant right after another card was answered", () =>
    expect(isIntentionalClick(1, 10_000, 9_800)).toBe(false));
  test("by key is always meant", () => expect(isIntentionalClick(0, 10_000, 9_999)).toBe(true));
});

test("a call that waits for other chats names them", () => {
  expect(childChats('{"agents":["a","b"]}')).toEqual(["a", "b"]);
  expect(childChats("{}")).toEqual([]);
});

test("a letter is pressed once, however long it is held, and alone", () => {
  const key = { key: "a", repeat: false, ctrlKey: false, metaKey: false, altKey: false };
  expect(pressedLetter(key)).toBe("A");
  expect(pressedLetter({ ...key, repeat: true })).toBeNull();
  expect(pressedLetter({ ...key, ctrlKey: true })).toBeNull();
  expect(pressedLetter({ ...key, key: "Enter" })).toBeNull();
});
