import { expect, it } from "vitest";
import { labelOf, readsLabel } from "./call-label";
import { stateOf } from "./call-state";

function labelText(
  tool: string,
  values: object,
  state: Parameters<typeof labelOf>[2],
  told = "",
): string {
  const { verb, object } = labelOf(tool, values as Record<string, unknown>, state, told);
  return `${verb} ${object}`.trim();
}

it.each([
  ["execute", { command: "git\n  status" }, "running", "Running git status"],
  ["execute", { command: "ls" }, "done", "Ran ls"],
  ["execute", { command: "ls" }, "refused", "Run ls"],
  ["execute", {}, "writing", "Running"],
  ["read_file", { path: "a.py" }, "done", "Read a.py"],
  ["read_file", { path: "a.py", offset: 5, limit: 10 }, "done", "Read a.py, lines 5–14"],
  ["read_file", { path: "a.py", offset: 5 }, "running", "Reading a.py, from line 5"],
  ["list_files", {}, "done", "Listed the files"],
  ["list_files", { pattern: "*.md", path: "docs" }, "done", "Listed *.md in docs"],
  ["search_files", { pattern: "TODO", path: "." }, "done", "Searched for TODO"],
  ["edit_file", { path: "a.py" }, "failed", "Edit a.py"],
  ["ask_user", { questions: [{ question: "Why?" }, {}] }, "done", "Asked Why? (and 1 more)"],
  ["list_agents", {}, "done", "Listed subagents"],
  ["wait_agents", { agents: ["x"] }, "running", "Waiting for 1 subagent"],
  ["github__search", {}, "done", "Used github__search"],
] as const)("%s %j, %s: %s", (tool, values, state, words) => {
  expect(labelText(tool, values, state)).toBe(words);
});

it("an unknown tool has its own label", () => {
  expect(labelText("x", {}, "running", "Deploy the site")).toBe("Deploy the site");
});

it("several reads have one label, and each file counts once", () => {
  const look = (tool: string, path = "") => ({ tool, values: { path } });
  expect(readsLabel([look("read_file", "a"), look("read_file", "a"), look("read_file", "b")])).toBe(
    "Read 2 files",
  );
  expect(readsLabel([look("search_files"), look("list_files"), look("search_files")])).toBe(
    "Listed 1 folder, searched 2 times",
  );
});

const NOTHING = { result: null, action: null, live: null, writing: false };

it("a call with a result is over, whatever its live state", () => {
  const result = { type: "result", call_id: "a", tool: "x", content: [] } as const;
  const over = (outcome?: "ok" | "failed" | "edited" | "timed_out") =>
    stateOf({
      ...NOTHING,
      writing: true,
      result: { ...result, content: [], ...(outcome ? { outcome } : {}) },
    });
  expect([over(), over("ok"), over("failed"), over("timed_out"), over("edited")]).toEqual([
    "done",
    "done",
    "failed",
    "timed_out",
    "dropped",
  ]);
});

it("a call that waits for a person is waiting, and one that waits for a subagent is running", () => {
  const call = { type: "call", id: "a", tool: "x", arguments: "" } as const;
  const action = (kind: "approval" | "child") => ({ kind, call, arguments: "", digest: "" });
  expect(stateOf({ ...NOTHING, action: action("approval") })).toBe("waiting");
  expect(stateOf({ ...NOTHING, action: action("child") })).toBe("running");
});

it("a complete call that has not started is starting", () => {
  expect(stateOf({ ...NOTHING, writing: true })).toBe("writing");
  expect(stateOf(NOTHING)).toBe("starting");
});

it("a tool called like an object property is unknown", () => {
  expect(labelOf("toString", {}, "done", "")).toEqual({
    verb: "Used",
    object: "toString",
    isCode: true,
  });
});
