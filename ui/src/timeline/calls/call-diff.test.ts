import { describe, expect, it } from "vitest";
import { call, result } from "../../store/fixtures";
import type { CallBlock } from "../../store/rows";
import { parsedPatches } from "../parse-diff";
import { changeOf, diffOfEdits } from "./call-diff";
import { valuesOf } from "./partial-json";

const DIFF = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b";

function block(tool: string, values: object, change: Partial<CallBlock> = {}): CallBlock {
  return {
    type: "call",
    call: call("1", tool, values),
    result: null,
    resultAt: null,
    live: null,
    action: null,
    writing: false,
    seconds: null,
    ...change,
  };
}

function changeIn(given: CallBlock) {
  return changeOf(given, valuesOf(given.call.arguments));
}

const EDIT = { path: "x", edits: [{ old_text: "a", new_text: "b" }] };
const WRITE = { path: "x", content: "one\ntwo\n" };

describe("the change of a call", () => {
  it("is the diff in its result", () => {
    const done = block("edit_file", EDIT, { result: result("1", "edit_file", DIFF) });
    expect(changeIn(done)).toEqual({ is: "patch", text: DIFF });
  });

  it.each(["failed", "refused", "interrupted", "lost", "skipped", "edited"] as const)(
    "is nothing when the call was %s",
    (outcome) => {
      const over = { ...result("1", "edit_file", DIFF), outcome };
      expect(changeIn(block("edit_file", EDIT, { result: over }))).toEqual({ is: "none" });
      expect(changeIn(block("write_file", WRITE, { result: over }))).toEqual({ is: "none" });
    },
  );

  it("of a new file adds every line", () => {
    const said = "Wrote x (2 lines, 8 B): a new file.";
    const change = changeIn(
      block("write_file", WRITE, { result: result("1", "write_file", said) }),
    );
    expect(change.is === "patch" && parsedPatches(change.text)[0]).toMatchObject({
      isNew: true,
      added: 2,
      removed: 0,
    });
  });

  it("of a file with unknown previous content is none", () => {
    const said = "x already holds exactly this: nothing was changed.";
    const done = block("write_file", WRITE, { result: result("1", "write_file", said) });
    expect(changeIn(done)).toEqual({ is: "none" });
  });

  it("is made from the arguments until there is a result", async () => {
    const change = changeIn(block("edit_file", EDIT, { writing: true }));
    expect(change).toEqual({ is: "edits", path: "x", edits: [{ old: "a", new: "b" }] });
    const [patch] = parsedPatches(await diffOfEdits("x", [{ old: "same\na", new: "same\nb" }]));
    expect(patch).toMatchObject({ file: "x", added: 1, removed: 1 });
    expect(patch?.lines.map(({ mark }) => mark)).toEqual(["same", "removed", "added"]);
  });
});
