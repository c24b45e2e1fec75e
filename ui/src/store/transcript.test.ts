import { describe, expect, it } from "vitest";
import type { ChatEvent } from "../api/types";
import {
  answer,
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
import { EMPTY, isLoaded, statusOf, type Transcript, withEarlier } from "./transcript";

function numbers({ messages }: Transcript): number[] {
  return messages.map(({ number }) => number);
}

describe("messages", () => {
  it("are ordered by number, each once, however they arrive", () => {
    const came = [3, 1, 2, 3, 1].map((number) => messageEvent(prompt(number, String(number))));
    expect(numbers(transcriptOf(came))).toEqual([1, 2, 3]);
  });

  it("are replaced by a newer revision, never by an older one", () => {
    const at = (revision: number, text: string) => messageEvent({ ...prompt(1, text), revision });
    const newer = transcriptOf([at(1, "old"), at(2, "new")]);
    expect(newer.messages[0]?.revision).toBe(2);
    expect(transcriptOf([at(1, "old")], newer).messages).toEqual(newer.messages);
  });

  it("that an edit superseded are removed, also when they arrive again", () => {
    const all = [1, 2, 3].map((number) => messageEvent(prompt(number, "x")));
    const edited = transcriptOf([
      ...all,
      { id: null, event: "superseded", data: { numbers: [2, 3] } },
    ]);
    expect(numbers(edited)).toEqual([1]);
    const late = messageEvent({ ...prompt(2, "x"), superseded_at: 5 });
    expect(numbers(transcriptOf([late], edited))).toEqual([1]);
  });
});

describe("the hand-over", () => {
  it("shows an answer either as live or as a message, never as both", () => {
    const live = transcriptOf([delta(1, { type: "text_delta", text: "hello" })]);
    const now = transcriptOf([messageEvent(answer(1, "hello"))], live);
    expect(now.live.parts).toEqual([]);
    expect(numbers(now)).toEqual([1]);
    expect(transcriptOf([reset("live")], now).messages).toBe(now.messages);
  });

  it("removes live output of a call when its result is committed", () => {
    const live = transcriptOf([
      messageEvent(answer(1, [call("a", "x"), call("b", "x")])),
      delta(1, { type: "tool_started", call_id: "a", tool: "x", label: "" }),
      delta(2, { type: "tool_started", call_id: "b", tool: "x", label: "" }),
    ]);
    const now = transcriptOf([messageEvent(results(2, [result("a", "x", "1")]))], live);
    expect([...now.live.calls.keys()]).toEqual(["b"]);
  });

  it("removes a live summary when its checkpoint arrives", () => {
    const live = transcriptOf([delta(1, { type: "compacting", asked_by: null, delta: "so far" })]);
    const checkpoint = stored(1, { role: "user", kind: "checkpoint", parts: [] });
    expect(transcriptOf([messageEvent(checkpoint)], live).live.summary).toBeNull();
  });

  it("keeps live output that a message does not contain", () => {
    const live = transcriptOf([delta(1, { type: "text_delta", text: "hello" })]);
    expect(transcriptOf([messageEvent(prompt(1, "aside"))], live).live).toBe(live.live);
  });
});

describe("a chat", () => {
  it("is never replaced by an older version", () => {
    const now = transcriptOf([chatEvent({ snapshot_version: 5, status: "running" })]);
    const late = transcriptOf([chatEvent({ snapshot_version: 4, status: "idle" })], now);
    expect(late.chat?.status).toBe("running");
  });

  it("starts over with its history, and keeps its snapshot", () => {
    const before = transcriptOf([chatEvent({ title: "T" }), messageEvent(prompt(9, "x"))]);
    const now = transcriptOf([reset("history", 40)], before);
    expect(now.messages).toEqual([]);
    expect(now.moreBefore).toBe(40);
    expect(now.chat?.title).toBe("T");
  });

  it("ignores unknown events", () => {
    const strange = { id: null, event: "weather", data: {} } as unknown as ChatEvent;
    expect(transcriptOf([strange])).toBe(EMPTY);
  });
});

describe("earlier messages", () => {
  it("are added in front, without present and superseded ones", () => {
    const now = transcriptOf([
      reset("history", 3),
      ...[3, 4].map((n) => messageEvent(prompt(n, "x"))),
    ]);
    const page = [prompt(1, "a"), { ...prompt(2, "b"), superseded_at: 1 }, prompt(3, "c")];
    const more = withEarlier(now, page, null);
    expect(numbers(more)).toEqual([1, 3, 4]);
    expect(more.moreBefore).toBeNull();
  });
});

describe("the status of a chat", () => {
  it("is running as soon as there is output, also if the snapshot says idle", () => {
    const rests = transcriptOf([chatEvent({ status: "idle" })]);
    expect(statusOf(rests)).toBe("idle");
    const live = { ...rests.live, parts: [{ type: "text", text: "Half" }] } as const;
    expect(statusOf({ ...rests, live })).toBe("running");
    expect(statusOf({ ...transcriptOf([chatEvent({ status: "error" })]), live })).toBe("error");
    expect(statusOf(EMPTY)).toBeNull();
  });
});

describe("a chat is loaded", () => {
  it("when its last message has arrived, not when its snapshot has", () => {
    const some = transcriptOf([chatEvent({ messages: 9 }), messageEvent(prompt(4, "x"))]);
    expect(isLoaded(some)).toBe(false);
    expect(isLoaded(transcriptOf([messageEvent(prompt(9, "x"))], some))).toBe(true);
    expect(isLoaded(EMPTY)).toBe(false);
  });
});
