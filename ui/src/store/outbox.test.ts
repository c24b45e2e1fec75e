import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { StreamState } from "../api/event-stream";
import type { Queued, Snapshot, Stored } from "../api/types";
import { Store } from "../reactive/store";
import { Outbox, type Unsent } from "./outbox";
import { EMPTY, type Transcript } from "./transcript";

/** A browser's storage, a server that does what it is told, and nothing else. */
class FakeStorage {
  readonly map = new Map<string, string>();
  get length() {
    return this.map.size;
  }
  key(at: number) {
    return [...this.map.keys()][at] ?? null;
  }
  getItem(name: string) {
    return this.map.get(name) ?? null;
  }
  setItem(name: string, value: string) {
    this.map.set(name, value);
  }
  removeItem(name: string) {
    this.map.delete(name);
  }
}

class ForbiddenStorage extends FakeStorage {
  override setItem() {
    throw new Error("it is full");
  }
}

interface Asked {
  readonly method: string;
  readonly key: string | null;
  readonly prompt: unknown;
  answer(status: number, body: unknown): Promise<void>;
  fail(): Promise<void>;
}

const asked: Asked[] = [];

function fetched(_: string, init: RequestInit): Promise<Response> {
  return new Promise((resolve, reject) => {
    init.signal?.addEventListener("abort", () => reject(init.signal?.reason));
    asked.push({
      method: init.method ?? "GET",
      key: (init.headers as Headers).get("Idempotency-Key"),
      prompt: init.body ? JSON.parse(String(init.body)).prompt : null,
      answer: async (status, body) => {
        resolve(new Response(JSON.stringify(body), { status }));
        await settle();
      },
      fail: async () => {
        reject(new TypeError("network"));
        await settle();
      },
    });
  });
}

async function settle(): Promise<void> {
  for (let turn = 0; turn < 20; turn += 1) await Promise.resolve();
}

beforeEach(() => {
  asked.length = 0;
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "Date"] });
  vi.stubGlobal("localStorage", new FakeStorage());
  vi.stubGlobal("fetch", fetched);
});

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

function opened(line = new Store<StreamState>({ is: "open" })): Outbox {
  const outbox = new Outbox("c");
  outbox.open(line);
  return outbox;
}

function said(number: number, text: string): Stored {
  const message = { role: "user", kind: "prompt", parts: [{ type: "text", text }] } as const;
  return {
    number,
    revision: 1,
    message: { ...message, parts: [...message.parts] },
    author: null,
    created_at: 0,
  };
}

function waiting(id: string, text: string): Queued {
  return { id, deliver: "queue", message: said(0, text).message, position: 1 };
}

function told(version: number, messages: readonly Stored[], queue: readonly Queued[] = []) {
  const chat = { snapshot_version: version, messages: messages.at(-1)?.number ?? 0 } as Snapshot;
  return { ...EMPTY, chat, messages, queue } satisfies Transcript;
}

const words = (outbox: Outbox) => outbox.unsent.get().map((each) => each.prompt);

describe("sending", () => {
  test("each message is sent once, and in order", async () => {
    const outbox = opened();
    outbox.put("one", "queue", {});
    outbox.put("two", "queue", {});
    expect(asked.map((each) => each.prompt)).toEqual(["one"]);
    await asked[0]?.answer(202, { number: 1 });
    expect(asked.map((each) => each.prompt)).toEqual(["one", "two"]);
    await asked[1]?.answer(202, { number: 2 });
    outbox.reconcile(told(2, [said(1, "one"), said(2, "two")]));
    expect(words(outbox)).toEqual([]);
    expect(asked).toHaveLength(2);
  });

  test("what got no answer is sent again under the same key", async () => {
    const outbox = opened();
    outbox.put("one", "queue", {});
    await asked[0]?.fail();
    expect(words(outbox)).toEqual(["one"]);
    await vi.advanceTimersByTimeAsync(1_000);
    expect(asked).toHaveLength(2);
    expect(asked[1]?.key).toBe(asked[0]?.key);
  });

  test("what is still on its way when the line has broken is sent again once it is back", async () => {
    const line = new Store<StreamState>({ is: "opening" });
    const outbox = opened(line);
    outbox.put("one", "queue", {});
    line.set({ is: "open" });
    await vi.advanceTimersByTimeAsync(60_000);
    expect(asked).toHaveLength(1);
    line.set({ is: "broken", retryAt: 0, tries: 1 });
    line.set({ is: "open" });
    await vi.advanceTimersByTimeAsync(1_000);
    expect(asked.map((each) => each.key)).toEqual([asked[0]?.key, asked[0]?.key]);
  });

  test("what is refused stays, with the reason, and does not hold up the next", async () => {
    const outbox = opened();
    outbox.put("one", "queue", {});
    outbox.put("two", "queue", {});
    await asked[0]?.answer(422, { kind: "x", status: 422, detail: "Not so." });
    expect(outbox.unsent.get()[0]?.refused).toBe("Not so.");
    expect(asked[1]?.prompt).toBe("two");
    outbox.reconcile(told(9, [said(9, "else")]));
    expect(words(outbox)).toEqual(["one", "two"]);
  });

  test("what is sent when the session is over is sent in the next one, and not refused", async () => {
    const outbox = opened();
    outbox.put("a", "queue", {});
    await asked[0]?.answer(401, { kind: "unauthorized", status: 401, detail: "Who are you?" });
    await asked[1]?.answer(401, { kind: "unauthorized", status: 401, detail: "Who are you?" });
    expect(outbox.unsent.get()[0]?.refused).toBeUndefined();
    outbox.close();
    const again = opened();
    expect(asked.at(-1)?.key).toBe(again.unsent.get()[0]?.key);
    await asked.at(-1)?.answer(200, { number: 1 });
    expect(again.unsent.get()[0]?.number).toBe(1);
  });

  test("is not refused because nobody could say whether the session is over", async () => {
    const outbox = opened();
    outbox.put("one", "queue", {});
    await asked[0]?.answer(401, { kind: "unauthorized", status: 401, detail: "Who are you?" });
    await asked[1]?.fail();
    expect(outbox.unsent.get()[0]?.refused).toBeUndefined();
    await vi.advanceTimersByTimeAsync(1_000);
    expect(asked.at(-1)?.key).toBe(asked[0]?.key);
  });

  test("what was refused is sent again under another key, in its old place", async () => {
    const outbox = opened();
    outbox.put("one", "queue", {});
    await asked[0]?.answer(422, { kind: "x", status: 422, detail: "Not so." });
    outbox.put("two", "queue", {});
    outbox.resend(outbox.unsent.get()[0]?.key ?? "");
    expect(words(outbox)).toEqual(["one", "two"]);
    await asked[1]?.answer(202, { number: 1 });
    expect(asked[2]?.prompt).toBe("one");
    expect(asked[2]?.key).not.toBe(asked[0]?.key);
  });

  test("what is discarded on its way is not sent again, and does not hold up the next", async () => {
    const outbox = opened();
    outbox.put("one", "queue", {});
    outbox.put("two", "queue", {});
    outbox.discard(outbox.unsent.get()[0]?.key ?? "");
    await settle();
    expect(asked.map((each) => each.prompt)).toEqual(["one", "two"]);
    expect(words(outbox)).toEqual(["two"]);
    expect(words(opened())).toEqual(["two"]);
  });

  test("what is discarded between two attempts is not sent again", async () => {
    const outbox = opened();
    outbox.put("one", "queue", {});
    await asked[0]?.fail();
    outbox.discard(outbox.unsent.get()[0]?.key ?? "");
    await vi.advanceTimersByTimeAsync(60_000);
    expect(asked).toHaveLength(1);
  });

  test("what another tab has discarded is not sent by this one", async () => {
    const elsewhere = opened();
    elsewhere.put("one", "queue", {});
    await asked[0]?.fail();
    const here = opened();
    await asked[1]?.fail();
    elsewhere.discard(elsewhere.unsent.get()[0]?.key ?? "");
    here.put("two", "queue", {});
    await vi.advanceTimersByTimeAsync(60_000);
    expect(asked.slice(2).map((each) => each.prompt)).toEqual(["two"]);
    expect(words(here)).toEqual(["two"]);
  });

  test("what the browser cannot keep is sent again all the same", async () => {
    vi.stubGlobal("localStorage", new ForbiddenStorage());
    const outbox = opened();
    outbox.put("one", "queue", {});
    await asked[0]?.fail();
    await vi.advanceTimersByTimeAsync(1_000);
    expect(asked.map((each) => each.prompt)).toEqual(["one", "one"]);
  });

  test("a closed outbox does not try again", async () => {
    const outbox = opened();
    outbox.put("one", "queue", {});
    await asked[0]?.fail();
    outbox.close();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(asked).toHaveLength(1);
  });
});

describe("a reload", () => {
  test("keeps what was not sent, in order, and sends it under the same keys", async () => {
    const before = opened();
    before.put("one", "queue", {});
    before.put("two", "steer", { model: "a:b" });
    const after = opened();
    expect(words(after)).toEqual(["one", "two"]);
    expect(asked[1]?.key).toBe(asked[0]?.key);
    expect((after.unsent.get()[1] as Unsent).model).toBe("a:b");
  });

  test("keeps nothing of what has arrived", async () => {
    const outbox = opened();
    outbox.put("one", "queue", {});
    await asked[0]?.answer(202, { number: 1 });
    outbox.reconcile(told(1, [said(1, "one")]));
    expect(words(opened())).toEqual([]);
  });

  test("two tabs do not write over what the other has to send", () => {
    const [one, other] = [opened(), opened()];
    one.put("of one", "queue", {});
    other.put("of the other", "queue", {});
    expect(words(opened()).sort()).toEqual(["of one", "of the other"]);
  });
});

describe("a message in the history", () => {
  test("is shown here until the stream shows it", async () => {
    const outbox = opened();
    outbox.reconcile(told(1, [said(1, "before")]));
    outbox.put("one", "queue", {});
    await asked[0]?.answer(202, { number: 3 });
    outbox.reconcile(told(2, [said(1, "before"), said(2, "else")]));
    expect(words(outbox)).toEqual(["one"]);
    outbox.reconcile(told(3, [said(1, "before"), said(2, "else"), said(3, "one")]));
    expect(words(outbox)).toEqual([]);
  });

  test("is not shown twice when the stream is faster than the answer", async () => {
    const outbox = opened();
    outbox.reconcile(told(1, [said(1, "one")]));
    outbox.put("one", "queue", {});
    expect(words(outbox)).toEqual(["one"]);
    outbox.reconcile(told(2, [said(1, "one"), said(2, "one")]));
    expect(words(outbox)).toEqual([]);
    await asked[0]?.answer(202, { number: 2 });
    expect(words(opened())).toEqual([]);
  });

  test("is shown again when somebody else said the same", async () => {
    const outbox = opened();
    outbox.reconcile(told(1, []));
    outbox.put("one", "queue", {});
    outbox.reconcile(told(2, [said(1, "one")]));
    await asked[0]?.answer(202, { number: 2 });
    expect(words(outbox)).toEqual(["one"]);
  });

  test("one that has come stands for one message and not for two", () => {
    const outbox = opened();
    outbox.reconcile(told(1, []));
    outbox.put("one", "queue", {});
    outbox.put("one", "queue", {});
    outbox.reconcile(told(2, [said(1, "one")]));
    expect(words(outbox)).toEqual(["one"]);
  });
});

describe("a message in the queue", () => {
  test("is shown here until the queue shows it, whatever else is told", async () => {
    const outbox = opened();
    outbox.reconcile(told(1, [said(1, "before")]));
    outbox.put("one", "queue", {});
    await asked[0]?.answer(202, { queued: "q" });
    outbox.reconcile(told(2, [said(1, "before")]));
    expect(words(outbox)).toEqual(["one"]);
    outbox.reconcile(told(3, [said(1, "before")], [waiting("q", "one")]));
    expect(words(outbox)).toEqual([]);
  });

  test("is gone at once when the queue showed it before the answer came", async () => {
    const outbox = opened();
    outbox.reconcile(told(1, []));
    outbox.put("one", "queue", {});
    outbox.reconcile(told(2, [], [waiting("q", "one")]));
    expect(words(outbox)).toEqual([]);
    await asked[0]?.answer(202, { queued: "q" });
    expect(words(opened())).toEqual([]);
    expect(asked).toHaveLength(1);
  });

  test("is gone when it was delivered before the queue was told", async () => {
    const outbox = opened();
    outbox.reconcile(told(1, [said(1, "before")]));
    outbox.put("one", "queue", {});
    await asked[0]?.answer(202, { queued: "q" });
    expect(asked[1]?.method).toBe("GET");
    await asked[1]?.answer(200, { snapshot_version: 5 });
    // Told of the chat, and not yet of its messages.
    const half = told(5, [said(1, "before")]);
    outbox.reconcile({ ...half, chat: { ...half.chat, messages: 2 } as Snapshot });
    expect(words(outbox)).toEqual(["one"]);
    outbox.reconcile(told(5, [said(1, "before"), said(2, "one")]));
    expect(words(outbox)).toEqual([]);
    expect(words(opened())).toEqual([]);
  });

  test("is gone when somebody took it out before the queue was told", async () => {
    const outbox = opened();
    outbox.put("one", "queue", {});
    await asked[0]?.answer(202, { queued: "q" });
    outbox.reconcile(told(4, [said(1, "before")]));
    await asked[1]?.answer(200, { snapshot_version: 4 });
    expect(words(outbox)).toEqual([]);
  });

  test("is looked for again after a reload", async () => {
    const before = opened();
    before.put("one", "queue", {});
    await asked[0]?.answer(202, { queued: "q" });
    const after = opened();
    await asked[2]?.answer(200, { snapshot_version: 7 });
    after.reconcile(told(7, [said(1, "one")]));
    expect(words(after)).toEqual([]);
    expect(asked.filter((each) => each.method === "POST")).toHaveLength(1);
  });
});
