import { describe, expect, it } from "vitest";
import type { Fragment } from "../api/types";
import { type Delta, type LiveOutput, NO_OUTPUT, withDelta } from "./live-output";

const ATTEMPT = { epoch: 1, history_version: 1, attempt: 1 };

function outputOf(fragments: readonly Fragment[], from: LiveOutput = NO_OUTPUT): LiveOutput {
  let seq = from.seq;
  return fragments.reduce((live, fragment) => {
    seq += 1;
    return withDelta(live, { ...ATTEMPT, first: seq, last: seq, fragment }, 1_000);
  }, from);
}

const text = (of: string): Fragment => ({ type: "text_delta", text: of });

describe("fragments", () => {
  it("build the parts of the later message", () => {
    const live = outputOf([
      { type: "reasoning_delta", text: "h" },
      { type: "reasoning_delta", text: "m" },
      text("a"),
      text("b"),
      { type: "call_started", call_id: "1", tool: "execute" },
      { type: "arguments_delta", call_id: "1", text: '{"comm' },
      { type: "arguments_delta", call_id: "1", text: 'and":"ls"}' },
      text("c"),
    ]);
    expect(live.parts).toEqual([
      { type: "reasoning", text: "hm" },
      { type: "text", text: "ab" },
      { type: "call", id: "1", tool: "execute", arguments: '{"command":"ls"}' },
      { type: "text", text: "c" },
    ]);
  });

  it("that were already received change nothing", () => {
    const live = outputOf([text("a"), text("b")]);
    const again: Delta = { ...ATTEMPT, first: 2, last: 2, fragment: text("b") };
    expect(withDelta(live, again, 0)).toBe(live);
  });

  it("of an older attempt change nothing", () => {
    const now = withDelta(
      NO_OUTPUT,
      { ...ATTEMPT, attempt: 2, first: 1, last: 1, fragment: text("new") },
      0,
    );
    expect(withDelta(now, { ...ATTEMPT, first: 9, last: 9, fragment: text("old") }, 0)).toBe(now);
  });

  it.each([
    ["attempt", { attempt: 2 }],
    ["history", { history_version: 2 }],
    ["epoch", { epoch: 2 }],
  ])("of the next %s begin anew", (_, next) => {
    const live = outputOf([text("old"), { type: "warning", text: "w" }]);
    const now = withDelta(
      live,
      { ...ATTEMPT, ...next, first: 1, last: 1, fragment: text("new") },
      0,
    );
    expect(now.parts).toEqual([{ type: "text", text: "new" }]);
    expect(now.warnings).toEqual([]);
  });

  it("of an unknown type are ignored", () => {
    const live = outputOf([text("a"), { type: "hologram" } as unknown as Fragment, text("b")]);
    expect(live.parts).toEqual([{ type: "text", text: "ab" }]);
  });
});

describe("a call", () => {
  it("is complete once the model has written it, also if its start was missed", () => {
    const whole = { type: "call", id: "1", tool: "x", arguments: "{}", called_at: 5 } as const;
    const seen = outputOf([
      { type: "call_started", call_id: "1", tool: "x" },
      { type: "tool_called", call: whole },
    ]);
    expect(seen.parts).toEqual([whole]);
    expect(outputOf([{ type: "tool_called", call: whole }]).parts).toEqual([whole]);
  });

  it("has live output while it runs", () => {
    const live = outputOf([
      { type: "tool_progressed", call_id: "1", tool: "x", what: "preview", text: "diff" },
      { type: "tool_started", call_id: "1", tool: "x", label: "Run ls" },
      {
        type: "tool_progressed",
        call_id: "1",
        tool: "x",
        what: "progress",
        text: "a\n",
        data: { done: 1 },
      },
      { type: "tool_progressed", call_id: "1", tool: "x", what: "progress", text: "b\n" },
      { type: "omitted", call_ids: ["1"] },
    ]);
    expect(live.calls.get("1")).toEqual({
      label: "Run ls",
      preview: "diff",
      output: "a\nb\n",
      data: { done: 1 },
      running: true,
      since: 1_000,
      result: null,
      seconds: null,
      omitted: true,
    });
  });

  it("keeps its output when it has finished", () => {
    const result = { type: "result", call_id: "1", tool: "x", content: [] } as const;
    const live = outputOf([
      { type: "tool_started", call_id: "1", tool: "x", label: "Run" },
      { type: "tool_progressed", call_id: "1", tool: "x", what: "progress", text: "a" },
      { type: "tool_finished", result: { ...result, content: [] }, seconds: 2 },
    ]);
    expect(live.calls.get("1")).toMatchObject({ running: false, seconds: 2, output: "a" });
  });
});

describe("a summary", () => {
  it("grows, and starts over with an empty piece", () => {
    const piece = (delta: string): Fragment => ({ type: "compacting", asked_by: null, delta });
    expect(outputOf([piece("")]).summary).toBe("");
    expect(outputOf([piece(""), piece("a"), piece("b")]).summary).toBe("ab");
    expect(outputOf([piece("a"), piece(""), piece("c")]).summary).toBe("c");
  });
});

it("a warning is shown once, however often it arrives", () => {
  const warning: Fragment = { type: "warning", text: "Left out." };
  expect(outputOf([warning, warning]).warnings).toEqual(["Left out."]);
});
