import { describe, expect, it } from "vitest";
import {
  colouredTextOf,
  commandResult,
  readLines,
  searchMatches,
  spawnedChat,
} from "./parse-results";

describe("the result of a command", () => {
  it("has the output and the exit code", () => {
    expect(commandResult("a\nb\n[exit code 2, 1.5 s]")).toEqual({
      output: "a\nb",
      code: 2,
      seconds: 1.5,
      notes: [],
    });
  });

  it("without output is empty", () => {
    expect(commandResult("(no output)\n[exit code 0, 0.0 s]")).toMatchObject({
      output: "",
      code: 0,
    });
  });

  it("lists stopped processes", () => {
    const text = "x\n[2 processes it had left running were stopped]\n[killed by SIGKILL, 3.0 s]";
    expect(commandResult(text)).toEqual({
      output: "x",
      code: null,
      seconds: 3,
      notes: ["2 processes it had left running were stopped", "killed by SIGKILL"],
    });
  });

  it("keeps output that only looks like an end note", () => {
    expect(commandResult("[1, 2, 3]\n[exit code 0, 0.1 s]").output).toBe("[1, 2, 3]");
    expect(commandResult("[not an end]")).toMatchObject({ output: "[not an end]", seconds: null });
  });

  it("says that the time limit was reached", () => {
    const { notes } = commandResult("x\n[time limit of 5 s reached: the command was stopped]");
    expect(notes).toEqual(["time limit of 5 s reached: the command was stopped"]);
  });
});

it("a file is parsed into numbered lines and notes", () => {
  const read = readLines(
    "    9\tnine\n   10\t\ttab\n[Lines 9–10 of 80. To go on, set offset to 11.]",
  );
  expect(read.lines).toEqual([
    { number: 9, text: "nine" },
    { number: 10, text: "\ttab" },
  ]);
  expect(read.words).toEqual(["Lines 9–10 of 80. To go on, set offset to 11."]);
});

it("search results are grouped by file, with context lines", () => {
  const { files, words } = searchMatches(
    "a-b.py-1- before\na-b.py:2: hit: here\n--\nc d.txt:7: x\n2 matches in 2 files.",
  );
  expect(files).toEqual([
    {
      path: "a-b.py",
      lines: [
        { number: 1, text: "before", isMatch: false },
        { number: 2, text: "hit: here", isMatch: true },
      ],
    },
    { path: "c d.txt", lines: [{ number: 7, text: "x", isMatch: true }] },
  ]);
  expect(words).toEqual(["2 matches in 2 files."]);
});

it("the chat of a spawned agent is found in the result", () => {
  expect(spawnedChat('{"agent":"c9"}')).toBe("c9");
  expect(spawnedChat("no")).toBeNull();
});

describe("the displayed text of a result", () => {
  const result = { type: "result", call_id: "1", tool: "execute" } as const;
  const content = [{ type: "text", text: "ok" } as const];

  it("has its colours if there are any", () => {
    const metadata = { holdfast: { coloured: "\u001b[32mok\u001b[0m" } };
    expect(colouredTextOf({ ...result, content, metadata })).toBe("\u001b[32mok\u001b[0m");
  });

  it.each([null, {}, { holdfast: null }, { holdfast: { coloured: 1 } }])(
    "is its text where %j is kept beside it",
    (metadata) => {
      expect(colouredTextOf({ ...result, content, metadata })).toBe("ok");
    },
  );
});
