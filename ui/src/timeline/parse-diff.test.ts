import { describe, expect, it } from "vitest";
import { isPatch, parsedPatches, patchWithLead } from "./parse-diff";

const CHANGE = `--- a/src/a.py
+++ b/src/a.py
@@ -1,3 +1,4 @@
 one
-two
+2
+two and a half
 three
@@ -10 +11 @@
-ten
\\ No newline at end of file
+TEN`;

describe("a diff", () => {
  it("is recognized by its hunks", () => {
    expect(isPatch(CHANGE)).toBe(true);
    expect(isPatch("Wrote a.py (3 lines, 12 B): a new file.")).toBe(false);
  });

  it("has the line numbers before and after", () => {
    const [patch] = parsedPatches(CHANGE);
    expect(patch).toMatchObject({ file: "src/a.py", isNew: false, added: 3, removed: 2 });
    expect(patch?.lines.map((line) => [line.mark, line.old, line.new, line.text])).toEqual([
      ["same", 1, 1, "one"],
      ["removed", 2, null, "two"],
      ["added", null, 2, "2"],
      ["added", null, 3, "two and a half"],
      ["same", 3, 4, "three"],
      ["words", null, null, "⋯"],
      ["removed", 10, null, "ten"],
      ["words", null, null, "No newline at end of file"],
      ["added", null, 11, "TEN"],
    ]);
  });

  it("recognizes a removed line that looks like a file header", () => {
    const [patch, ...more] = parsedPatches(
      "--- a/q.sql\n+++ b/q.sql\n@@ -1,2 +1,1 @@\n--- a comment\n same",
    );
    expect(more).toEqual([]);
    expect(patch?.lines[0]).toMatchObject({ mark: "removed", text: "-- a comment" });
  });

  it("separates several files, and marks new ones", () => {
    const found = parsedPatches(
      "--- /dev/null\n+++ b/n.txt\n@@ -0,0 +1 @@\n+hi\n--- a/o.txt\n+++ b/o.txt\n@@ -1 +1 @@\n-a\n+b",
    );
    expect(found.map(({ file, isNew }) => [file, isNew])).toEqual([
      ["n.txt", true],
      ["o.txt", false],
    ]);
  });

  it("marks omitted lines", () => {
    const [patch] = parsedPatches(
      "--- a/a\n+++ b/a\n@@ -1,90 +1,90 @@\n-a\n+b\n[… 88 more lines of this diff are not shown …]",
    );
    expect(patch?.lines.at(-1)).toMatchObject({
      mark: "words",
      text: "[… 88 more lines of this diff are not shown …]",
    });
  });
});

describe("a preview", () => {
  const patch = "--- /dev/null\n+++ b/a\n@@ -0,0 +1 @@\n+x";

  it("is a diff if it is only a diff with at most one line before it", () => {
    expect(patchWithLead(patch)).toEqual({ words: "", patch });
    expect(patchWithLead(`(It ends otherwise)\n${patch}`)).toEqual({
      words: "(It ends otherwise)",
      patch,
    });
    expect(patchWithLead("--- a heading\nand text")).toBeNull();
  });

  it("is not a diff if it only contains one: the rest would not be visible", () => {
    expect(patchWithLead(`Runs as you:\n\nrm -r x <<END\n${patch}\nEND`)).toBeNull();
  });
});
