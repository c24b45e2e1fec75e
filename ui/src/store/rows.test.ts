import { describe, expect, it } from "vitest";
import type { Message, Pending } from "../api/types";
import { stateOf } from "../timeline/calls/call-state";
import {
  answer,
  BEGAN,
  call,
  chatEvent,
  delta,
  messageEvent,
  prompt,
  reset,
  result,
  results,
  stored,
  transcriptOf,
} from "./fixtures";
import { type Row, RowBuilder } from "./rows";

function blocksOf(row: Row | undefined) {
  return row?.kind === "answer" ? row.blocks : [];
}

function callIn(row: Row | undefined) {
  const block = blocksOf(row).find(({ type }) => type === "call");
  return block?.type === "call" ? block : null;
}

const PENDING: Pending = {
  kind: "approval",
  call: call("a", "execute"),
  arguments: "{}",
  digest: "d",
};

describe("rows", () => {
  it("show what is visible to users, and results with their calls", () => {
    const transcript = transcriptOf([
      messageEvent(prompt(1, "hi")),
      messageEvent(answer(2, [call("a", "read_file")])),
      messageEvent(results(3, [result("a", "read_file", "text")])),
      messageEvent(prompt(4, "only the model sees it", { visibility: "model" })),
      messageEvent(stored(5, { role: "system", kind: "note", parts: [], visibility: "user" })),
    ]);
    const rows = new RowBuilder().of(transcript);
    expect(rows.map(({ kind, key }) => [kind, key])).toEqual([
      ["prompt", "m1"],
      ["answer", "m2"],
      ["note", "m5"],
    ]);
    expect(callIn(rows[1])?.result?.content).toEqual([{ type: "text", text: "text" }]);
    expect(callIn(rows[1])?.resultAt).toBe(BEGAN + 3_000_000);
  });

  it("show a call that was incomplete when the turn was interrupted", () => {
    const parts = [
      { ...call("b", "act"), arguments: '{"wh' },
      { ...result("b", "act", "Not run."), outcome: "interrupted" as const },
    ];
    const half = answer(3, parts).message;
    const stopped = stored(3, { ...half, visibility: "user", finish: "interrupted" });
    const transcript = transcriptOf([
      chatEvent({ status: "idle" }),
      messageEvent(prompt(1, "hi")),
      messageEvent(answer(2, [{ type: "text", text: "I will" }])),
      messageEvent(stopped),
    ]);
    const rows = new RowBuilder().of(transcript);
    const block = callIn(rows[2]);
    expect(block?.call.arguments).toBe('{"wh');
    expect(block === null ? null : stateOf(block)).toBe("interrupted");
    expect(rows[2]?.kind === "answer" ? rows[2].turn?.steps : null).toBe(1);
  });

  it("show a summary once, without the note about it", () => {
    const summary: Message = { role: "user", kind: "checkpoint", visibility: "model", parts: [] };
    const note: Message = { role: "system", kind: "note", visibility: "user", parts: [] };
    const transcript = transcriptOf(
      [1, 2, 3].map((at) => messageEvent(stored(at, at === 1 ? summary : note))),
    );
    const rows = new RowBuilder().of(transcript);
    expect(rows.map(({ kind, key }) => [kind, key])).toEqual([
      ["checkpoint", "m1"],
      ["note", "m3"],
    ]);
  });

  it("are the same objects while an answer grows", () => {
    const rows = new RowBuilder();
    const first = transcriptOf([
      messageEvent(prompt(1, "hi")),
      delta(1, { type: "text_delta", text: "a" }),
    ]);
    const before = rows.of(first);
    const now = rows.of(transcriptOf([delta(2, { type: "text_delta", text: "b" })], first));
    expect(now[0]).toBe(before[0]);
    expect(now[1]).not.toBe(before[1]);
    expect(rows.committed(first)).toBe(rows.committed(transcriptOf([], first)));
  });

  it("are the same objects when another message comes", () => {
    const rows = new RowBuilder();
    const first = transcriptOf([
      chatEvent({}),
      messageEvent(prompt(1, "hi")),
      messageEvent(answer(2, [call("a", "x")])),
      messageEvent(results(3, [result("a", "x", "1")])),
      messageEvent(answer(4, "done")),
    ]);
    const before = rows.of(first);
    const now = rows.of(transcriptOf([messageEvent(prompt(5, "more"))], first));
    expect(now.slice(0, before.length)).toEqual(before);
    now.slice(0, before.length).forEach((row, at) => {
      expect(row).toBe(before[at]);
    });
  });

  it("change when one of their calls prints, and others do not", () => {
    const rows = new RowBuilder();
    const first = transcriptOf([
      messageEvent(answer(1, "text")),
      messageEvent(answer(2, [call("a", "execute")])),
      delta(1, { type: "tool_started", call_id: "a", tool: "execute", label: "run" }),
    ]);
    const before = rows.of(first);
    const now = rows.of(
      transcriptOf(
        [
          delta(2, {
            type: "tool_progressed",
            call_id: "a",
            tool: "execute",
            what: "progress",
            text: "out",
          }),
        ],
        first,
      ),
    );
    expect(now[0]).toBe(before[0]);
    expect(callIn(now[1])?.live?.output).toBe("out");
  });

  it("change when one of their calls starts or stops waiting", () => {
    const rows = new RowBuilder();
    const first = transcriptOf([messageEvent(answer(1, [call("a", "execute")]))]);
    rows.of(first);
    const waits = transcriptOf(
      [{ id: null, event: "actions", data: { actions: [PENDING] } }],
      first,
    );
    expect(callIn(rows.of(waits)[0])?.action).toBe(PENDING);
    const over = transcriptOf([{ id: null, event: "actions", data: { actions: [] } }], waits);
    expect(callIn(rows.of(over)[0])?.action).toBeNull();
  });

  it("show what a restart cut off, until the next attempt has output", () => {
    const partial = answer(2, "So far").message;
    const cut = transcriptOf([
      messageEvent(prompt(1, "hi")),
      chatEvent({ status: "running", partial }),
    ]);
    const row = new RowBuilder().of(cut).at(-1);
    expect(blocksOf(row)).toMatchObject([{ type: "text", text: "So far", growing: false }]);
    expect(row?.kind === "answer" && row.isCut).toBe(true);
    const anew = new RowBuilder()
      .of(transcriptOf([delta(1, { type: "text_delta", text: "A" })], cut))
      .at(-1);
    expect(blocksOf(anew)).toMatchObject([{ type: "text", text: "A" }]);
    expect(anew?.kind === "answer" && anew.isCut).toBe(false);
  });

  it("have the stored duration of a call, as after a reload", () => {
    const ran = { ...result("a", "execute", "x"), started_at: 1_000_000, finished_at: 3_500_000 };
    const stored = [
      messageEvent(answer(1, [call("a", "execute")])),
      messageEvent(results(2, [ran])),
    ];
    expect(callIn(new RowBuilder().of(transcriptOf(stored))[0])?.seconds).toBe(2.5);
    const old = [
      messageEvent(answer(1, [call("a", "execute")])),
      messageEvent(results(2, [result("a", "execute", "x")])),
    ];
    expect(callIn(new RowBuilder().of(transcriptOf(old))[0])?.seconds).toBeNull();
  });

  it("have the model's time in a turn, if all of its answers have it", () => {
    const turnOf = (...runtimes: (number | null)[]) => {
      const answers = runtimes.map((runtime, at) => messageEvent(answer(at + 2, "x", { runtime })));
      const row = new RowBuilder()
        .of(transcriptOf([messageEvent(prompt(1, "hi")), ...answers]))
        .at(-1);
      return row?.kind === "answer" ? row.turn : null;
    };
    expect(turnOf(1_500, 250)?.model).toBe(1_750);
    expect(turnOf(1_500, null)?.model).toBeNull();
  });

  it("keep the duration of a call when its live state is removed", () => {
    const rows = new RowBuilder();
    const first = transcriptOf([
      messageEvent(answer(1, [call("a", "execute")])),
      delta(1, { type: "tool_finished", result: result("a", "execute", "x"), seconds: 1.25 }),
    ]);
    expect(callIn(rows.of(first)[0])?.seconds).toBe(1.25);
    const ran = { ...result("a", "execute", "x"), started_at: 0, finished_at: 1_250_000 };
    const over = transcriptOf([messageEvent(results(2, [ran])), reset("live")], first);
    expect(callIn(rows.of(over)[0])?.seconds).toBe(1.25);
  });
});

describe("an answer that is being written", () => {
  it("has the key of its later message", () => {
    const rows = new RowBuilder();
    const live = transcriptOf([
      messageEvent(prompt(1, "hi")),
      delta(1, { type: "text_delta", text: "hello" }),
    ]);
    const growing = rows.of(live).at(-1);
    const committed = transcriptOf([messageEvent(answer(2, "hello"))], live);
    expect(rows.of(committed).map(({ key }) => key)).toEqual(["m1", growing?.key]);
    expect(rows.of(committed)).toHaveLength(2);
  });

  it("keeps the blocks that are finished", () => {
    const rows = new RowBuilder();
    const first = transcriptOf([
      delta(1, { type: "reasoning_delta", text: "hm" }),
      delta(2, { type: "text_delta", text: "a" }),
    ]);
    const before = blocksOf(rows.of(first)[0]);
    const now = blocksOf(
      rows.of(transcriptOf([delta(3, { type: "text_delta", text: "b" })], first))[0],
    );
    expect(now[0]).toBe(before[0]);
    expect(now[1]).toEqual({ type: "text", text: "ab", growing: true });
  });
});

describe("a turn", () => {
  const usage = (input: number, output: number, cost: number | null) => ({ input, output, cost });

  it("belongs to its last answer, once it is over", () => {
    const events = [
      messageEvent(prompt(1, "hi")),
      messageEvent(answer(2, [call("a", "x")], { usage: usage(10, 5, 0.25) })),
      messageEvent(results(3, [result("a", "x", "1")])),
      messageEvent(answer(4, "done", { usage: usage(20, 7, 0.5) })),
    ];
    const busy = transcriptOf([chatEvent({ status: "running" }), ...events]);
    const rows = new RowBuilder();
    expect(rows.of(busy).map((row) => row.kind === "answer" && row.turn)).toEqual([
      false,
      null,
      null,
    ]);
    const over = transcriptOf([chatEvent({ status: "idle", snapshot_version: 2 })], busy);
    const last = rows.of(over).at(-1);
    expect(last?.kind === "answer" && last.turn).toEqual({
      steps: 2,
      micros: 3_000_000,
      model: null,
      input: 30,
      output: 12,
      cost: 0.75,
    });
  });

  it("has no cost when one of its answers has none", () => {
    const transcript = transcriptOf([
      messageEvent(prompt(1, "hi")),
      messageEvent(answer(2, "a", { usage: usage(1, 1, null) })),
      messageEvent(answer(3, "b", { usage: usage(1, 1, 0.5) })),
    ]);
    const last = new RowBuilder().of(transcript).at(-1);
    expect(last?.kind === "answer" && last.turn?.cost).toBeNull();
  });

  it("is unknown if its start is not loaded", () => {
    const transcript = transcriptOf([
      messageEvent(answer(8, "end")),
      messageEvent(prompt(9, "next")),
    ]);
    const first = new RowBuilder().of(transcript)[0];
    expect(first?.kind === "answer" && first.turn).toBeNull();
  });
});

it("rows updated for one call equal rows built from scratch", () => {
  const asks = (number: number) =>
    messageEvent(answer(number, [call("a", "execute"), call("b", "x")]));
  const prints = (seq: number, text: string) =>
    delta(seq, { type: "tool_progressed", call_id: "a", tool: "execute", what: "progress", text });
  // Some providers give the same id in another answer.
  let transcript = transcriptOf([
    chatEvent({ status: "running" }),
    asks(1),
    messageEvent(prompt(2, "x")),
    asks(3),
  ]);
  const rows = new RowBuilder();
  const first = rows.committed(transcript);
  for (const seq of [1, 2, 3]) {
    transcript = transcriptOf([prints(seq, `${seq}\n`)], transcript);
    expect(rows.committed(transcript)).toEqual(new RowBuilder().committed(transcript));
  }
  expect(callIn(rows.committed(transcript)[2])?.live?.output).toBe("1\n2\n3\n");
  expect(rows.committed(transcript)[1]).toBe(first[1]);
  transcript = transcriptOf([reset("live")], transcript);
  expect(rows.committed(transcript)).toEqual(new RowBuilder().committed(transcript));
});
