import { describe, expect, it } from "vitest";
import type { Failure } from "../api/types";
import { snapshot } from "../store/fixtures";
import { NO_OUTPUT } from "../store/live-output";
import { announcement, failureTitle, type TailInput, tailOf } from "./tail";

const FAILURE: Failure = { kind: "rate_limit", message: "Slow down." };
const BROKEN = { is: "broken", retryAt: 5_000, tries: 2 } as const;

function tail(chat: Parameters<typeof snapshot>[0], change: Partial<TailInput> = {}) {
  return tailOf({
    chat: snapshot(chat),
    live: NO_OUTPUT,
    actions: [],
    stream: { is: "open" },
    stopping: false,
    ...change,
  });
}

const RETRY = { attempt: 2, of: 5, failure: FAILURE, at: 9 };
const WORDS: TailInput["live"] = { ...NO_OUTPUT, parts: [{ type: "text", text: "a" }] };

describe("the end of the timeline", () => {
  it("says nothing before anything is known", () => {
    expect(tailOf({ ...GIVEN, chat: null })).toEqual({ is: "rest" });
  });

  it("thinks until the first word, then works", () => {
    expect(tail({ status: "running" }).is).toBe("thinking");
    expect(tail({ status: "running" }, { live: WORDS }).is).toBe("working");
    expect(tail({ status: "running" }, { live: { ...NO_OUTPUT, summary: "" } }).is).toBe("working");
  });

  it("tells of a retry before anything else that is going on", () => {
    const now = tail({ status: "running", retry: RETRY }, { stopping: true, stream: BROKEN });
    expect(now).toEqual({ is: "retry", retry: RETRY });
  });

  it("does not tell of a retry that is over", () => {
    expect(tail({ status: "idle", retry: RETRY }).is).toBe("rest");
  });

  it("tells why a turn failed", () => {
    expect(tail({ status: "error", error: FAILURE })).toEqual({ is: "failed", failure: FAILURE });
  });

  it("is stopping from the click to the word of the server", () => {
    expect(tail({ status: "running" }, { stopping: true }).is).toBe("stopping");
    expect(tail({ status: "interrupting" }).is).toBe("stopping");
    expect(tail({ status: "idle", outcome: { reason: "interrupted" } }).is).toBe("stopped");
  });

  it("tells of a broken connection only while something goes on behind it", () => {
    expect(tail({ status: "running" }, { stream: BROKEN }).is).toBe("reconnecting");
    expect(tail({ status: "requires_action" }, { stream: BROKEN }).is).toBe("reconnecting");
    expect(tail({ status: "idle" }, { stream: BROKEN }).is).toBe("rest");
  });

  it("tells when nobody works on it", () => {
    expect(tail({ status: "running", stranded: true }).is).toBe("stranded");
    expect(tail({ status: "idle", stranded: true }).is).toBe("rest");
  });

  it("counts those who are waited for", () => {
    const actions = [{ kind: "approval" }, { kind: "child" }, { kind: "child" }];
    expect(tail({ status: "requires_action" }, { actions })).toEqual({
      is: "waiting",
      people: 1,
      agents: 2,
    });
  });

  it("tells that the steps were used up", () => {
    const outcome = { reason: "max_steps", steps: 40 } as const;
    expect(tail({ outcome })).toEqual({ is: "max_steps", steps: 40 });
  });

  it("tells that a chat is put away, before how it ended", () => {
    expect(tail({ archived: true, outcome: { reason: "interrupted" } }).is).toBe("archived");
  });

  it("tells that the server ended it, whatever the chat was", () => {
    const line = { is: "ended", reason: "deleted" } as const;
    expect(tail({ status: "running" }, { stream: line })).toEqual({
      is: "ended",
      reason: "deleted",
    });
  });
});

const GIVEN: TailInput = {
  chat: null,
  live: NO_OUTPUT,
  actions: [],
  stream: { is: "opening" },
  stopping: false,
};

it("a kind that is not known yet is told plainly", () => {
  expect(failureTitle({ kind: "overloaded" })).toBe("The provider is overloaded");
  expect(failureTitle({ kind: "moonphase" as Failure["kind"] })).toBe("Something went wrong");
});

it("only beginnings, ends and needs are announced", () => {
  const [working, rest] = [{ is: "working" }, { is: "rest" }] as const;
  const failed = { is: "failed", failure: { kind: "server" } as Failure } as const;
  expect(announcement(null, working)).toBeNull();
  expect(announcement({ is: "thinking" }, working)).toBeNull();
  expect(announcement(rest, { is: "thinking" })).toBe("The agent is working.");
  expect(announcement(working, rest)).toBe("The agent has finished.");
  expect(announcement(working, failed)).toBe("The turn failed.");
  expect(announcement({ is: "stopping" }, { is: "stopped" })).toBe("The agent was stopped.");
});

it("who waits for agents of its own needs nobody, and who waits for a person does", () => {
  const agents = { is: "waiting", people: 0, agents: 2 } as const;
  const people = { is: "waiting", people: 1, agents: 2 } as const;
  expect(announcement({ is: "working" }, agents)).toBeNull();
  expect(announcement(agents, people)).toBe("The agent is waiting for an answer.");
});

it("a chat that is gone is not announced as one that has finished", () => {
  const ended = (reason: string) => announcement({ is: "working" }, { is: "ended", reason });
  expect(ended("deleted")).toBe("This chat was deleted.");
  expect(ended("moonphase")).toBe("The server closed the stream.");
});
