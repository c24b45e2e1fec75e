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
  it("is empty before the chat is loaded", () => {
    expect(tailOf({ ...GIVEN, chat: null })).toEqual({ is: "rest" });
  });

  it("is thinking until the first output, then working", () => {
    expect(tail({ status: "running" }).is).toBe("thinking");
    expect(tail({ status: "running" }, { live: WORDS }).is).toBe("working");
    expect(tail({ status: "running" }, { live: { ...NO_OUTPUT, summary: "" } }).is).toBe("working");
  });

  it("shows a retry before other states", () => {
    const now = tail({ status: "running", retry: RETRY }, { stopping: true, stream: BROKEN });
    expect(now).toEqual({ is: "retry", retry: RETRY });
  });

  it("does not show a retry that is over", () => {
    expect(tail({ status: "idle", retry: RETRY }).is).toBe("rest");
  });

  it("shows why a turn failed", () => {
    expect(tail({ status: "error", error: FAILURE })).toEqual({ is: "failed", failure: FAILURE });
  });

  it("is stopping from the click until the server confirms it", () => {
    expect(tail({ status: "running" }, { stopping: true }).is).toBe("stopping");
    expect(tail({ status: "interrupting" }).is).toBe("stopping");
    expect(tail({ status: "idle", outcome: { reason: "interrupted" } }).is).toBe("stopped");
  });

  it("shows a lost connection only while the chat is active", () => {
    expect(tail({ status: "running" }, { stream: BROKEN }).is).toBe("reconnecting");
    expect(tail({ status: "requires_action" }, { stream: BROKEN }).is).toBe("reconnecting");
    expect(tail({ status: "idle" }, { stream: BROKEN }).is).toBe("rest");
  });

  it("shows when no worker has the agent", () => {
    expect(tail({ status: "running", stranded: true }).is).toBe("stranded");
    expect(tail({ status: "idle", stranded: true }).is).toBe("rest");
  });

  it("counts the people and agents that the chat waits for", () => {
    const actions = [{ kind: "approval" }, { kind: "child" }, { kind: "child" }];
    expect(tail({ status: "requires_action" }, { actions })).toEqual({
      is: "waiting",
      people: 1,
      agents: 2,
    });
  });

  it("shows the limit that was reached", () => {
    const limit = { name: "steps", scope: "turn", used: 40, maximum: 40 } as const;
    const outcome = { reason: "limit", steps: 40, limit } as const;
    expect(tail({ outcome })).toEqual({ is: "limit", ...limit });
  });

  it("shows that a chat is archived, before its outcome", () => {
    expect(tail({ archived: true, outcome: { reason: "interrupted" } }).is).toBe("archived");
  });

  it("shows that the server ended the stream, whatever the status", () => {
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

it("an unknown kind of failure has a general title", () => {
  expect(failureTitle({ kind: "overloaded" })).toBe("The provider is overloaded");
  expect(failureTitle({ kind: "moonphase" as Failure["kind"] })).toBe("The turn failed");
});

it("only starts, ends and pending actions are announced", () => {
  const [working, rest] = [{ is: "working" }, { is: "rest" }] as const;
  const failed = { is: "failed", failure: { kind: "server" } as Failure } as const;
  expect(announcement(null, working)).toBeNull();
  expect(announcement({ is: "thinking" }, working)).toBeNull();
  expect(announcement(rest, { is: "thinking" })).toBe("The agent is working.");
  expect(announcement(working, rest)).toBe("The agent has finished.");
  expect(announcement(working, failed)).toBe("The turn failed.");
  expect(announcement({ is: "stopping" }, { is: "stopped" })).toBe("The turn was interrupted.");
});

it("a chat that waits for subagents is announced as busy, and one that waits for a person as waiting", () => {
  const agents = { is: "waiting", people: 0, agents: 2 } as const;
  const people = { is: "waiting", people: 1, agents: 2 } as const;
  expect(announcement({ is: "working" }, agents)).toBeNull();
  expect(announcement(agents, people)).toBe("The agent is waiting for an answer.");
});

it("a deleted chat is not announced as finished", () => {
  const ended = (reason: string) => announcement({ is: "working" }, { is: "ended", reason });
  expect(ended("deleted")).toBe("This chat was deleted.");
  expect(ended("moonphase")).toBe("The server closed the stream.");
});
