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

function fakeFetch(_: string, init: RequestInit): Promise<Response> {
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
  vi.stubGlobal("fetch", fakeFetch);
});

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

function openOutbox(streamState = new Store<StreamState>({ is: "open" })): Outbox {
  const outbox = new Outbox("c");
  outbox.open(streamState);
  return outbox;
}

function promptAt(number: number, text: string): Stored {
  const message = { role: "user", kind: "prompt", parts: [{ type: "text", text }] } as const;
  return {
    number,
    revision: 1,
    message: { ...message, parts: [...message.parts] },
    author: null,
    created_at: 0,
  };
}

function queuedMessage(id: string, text: string): Queued {
  return { id, deliver: "queue", message: promptAt(0, text).message, position: 1 };
}

function transcriptAt(version: number, messages: readonly Stored[], queue: readonly Queued[] = []) {
  const chat = { snapshot_version: version, messages: messages.at(-1)?.number ?? 0 } as Snapshot;
  return { ...EMPTY, chat, messages, queue } satisfies Transcript;
}

const unsentTexts = (outbox: Outbox) => outbox.unsent.get().map((each) => each.prompt);

describe("sending", () => {
  test("each message is sent once, and in order", async () => {
    const outbox = openOutbox();
    outbox.put("one", "queue", {});
    outbox.put("two", "queue", {});
    expect(asked.map((each) => each.prompt)).toEqual(["one"]);
    await asked[0]?.answer(202, { number: 1 });
    expect(asked.map((each) => each.prompt)).toEqual(["one", "two"]);
    await asked[1]?.answer(202, { number: 2 });
    outbox.reconcile(transcriptAt(2, [promptAt(1, "one"), promptAt(2, "two")]));
    expect(unsentTexts(outbox)).toEqual([]);
    expect(asked).toHaveLength(2);
  });

  test("a message without response is sent again with the same key", async () => {
    const outbox = openOutbox();
    outbox.put("one", "queue", {});
    await asked[0]?.fail();
    expect(unsentTexts(outbox)).toEqual(["one"]);
    await vi.advanceTimersByTimeAsync(1_000);
    expect(asked).toHaveLength(2);
    expect(asked[1]?.key).toBe(asked[0]?.key);
  });

  test("a request that hangs when the connection broke is sent again after the reconnect", async () => {
    const line = new Store<StreamState>({ is: "opening" });
    const outbox = openOutbox(line);
    outbox.put("one", "queue", {});
    line.set({ is: "open" });
    await vi.advanceTimersByTimeAsync(60_000);
    expect(asked).toHaveLength(1);
    line.set({ is: "broken", retryAt: 0, tries: 1 });
    line.set({ is: "open" });
    await vi.advanceTimersByTimeAsync(1_000);
    expect(asked.map((each) => each.key)).toEqual([asked[0]?.key, asked[0]?.key]);
  });

  test("a refused message stays, with the reason, and does not block the next", async () => {
    const outbox = openOutbox();
    outbox.put("one", "queue", {});
    outbox.put("two", "queue", {});
    await asked[0]?.answer(422, { kind: "x", status: 422, detail: "Not so." });
    expect(outbox.unsent.get()[0]?.refused).toBe("Not so.");
    expect(asked[1]?.prompt).toBe("two");
    outbox.reconcile(transcriptAt(9, [promptAt(9, "else")]));
    expect(unsentTexts(outbox)).toEqual(["one", "two"]);
  });

  test("a message sent with an expired session is sent in the next session, and not refused", async () => {
    const outbox = openOutbox();
    outbox.put("a", "queue", {});
    await asked[0]?.answer(401, { kind: "unauthorized", status: 401, detail: "Who are you?" });
    await asked[1]?.answer(401, { kind: "unauthorized", status: 401, detail: "Who are you?" });
    expect(outbox.unsent.get()[0]?.refused).toBeUndefined();
    outbox.close();
    const again = openOutbox();
    expect(asked.at(-1)?.key).toBe(again.unsent.get()[0]?.key);
    await asked.at(-1)?.answer(200, { number: 1 });
    expect(again.unsent.get()[0]?.number).toBe(1);
  });

  test("a message is not refused when the session could not be checked", async () => {
    const outbox = openOutbox();
    outbox.put("one", "queue", {});
    await asked[0]?.answer(401, { kind: "unauthorized", status: 401, detail: "Who are you?" });
    await asked[1]?.fail();
    expect(outbox.unsent.get()[0]?.refused).toBeUndefined();
    await vi.advanceTimersByTimeAsync(1_000);
    expect(asked.at(-1)?.key).toBe(asked[0]?.key);
  });

  test("a refused message is sent again with another key, in its old position", async () => {
    const outbox = openOutbox();
    outbox.put("one", "queue", {});
    await asked[0]?.answer(422, { kind: "x", status: 422, detail: "Not so." });
    outbox.put("two", "queue", {});
    outbox.resend(outbox.unsent.get()[0]?.key ?? "");
    expect(unsentTexts(outbox)).toEqual(["one", "two"]);
    await asked[1]?.answer(202, { number: 1 });
    expect(asked[2]?.prompt).toBe("one");
    expect(asked[2]?.key).not.toBe(asked[0]?.key);
  });

  test("a message discarded while it is sent is not sent again, and does not block the next", async () => {
    const outbox = openOutbox();
    outbox.put("one", "queue", {});
    outbox.put("two", "queue", {});
    outbox.discard(outbox.unsent.get()[0]?.key ?? "");
    await settle();
    expect(asked.map((each) => each.prompt)).toEqual(["one", "two"]);
    expect(unsentTexts(outbox)).toEqual(["two"]);
    expect(unsentTexts(openOutbox())).toEqual(["two"]);
  });

  test("a message discarded between two attempts is not sent again", async () => {
    const outbox = openOutbox();
    outbox.put("one", "queue", {});
    await asked[0]?.fail();
    outbox.discard(outbox.unsent.get()[0]?.key ?? "");
    await vi.advanceTimersByTimeAsync(60_000);
    expect(asked).toHaveLength(1);
  });

  test("a message discarded in another tab is not sent by this one", async () => {
    const elsewhere = openOutbox();
    elsewhere.put("one", "queue", {});
    await asked[0]?.fail();
    const here = openOutbox();
    await asked[1]?.fail();
    elsewhere.discard(elsewhere.unsent.get()[0]?.key ?? "");
    here.put("two", "queue", {});
    await vi.advanceTimersByTimeAsync(60_000);
    expect(asked.slice(2).map((each) => each.prompt)).toEqual(["two"]);
    expect(unsentTexts(here)).toEqual(["two"]);
  });

  test("a message that cannot be stored is retried all the same", async () => {
    vi.stubGlobal("localStorage", new ForbiddenStorage());
    const outbox = openOutbox();
    outbox.put("one", "queue", {});
    await asked[0]?.fail();
    await vi.advanceTimersByTimeAsync(1_000);
    expect(asked.map((each) => each.prompt)).toEqual(["one", "one"]);
  });

  test("a closed outbox does not try again", async () => {
    const outbox = openOutbox();
    outbox.put("one", "queue", {});
    await asked[0]?.fail();
    outbox.close();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(asked).toHaveLength(1);
  });
});

describe("a reload", () => {
  test("keeps unsent messages, in order, and sends them with the same keys", async () => {
    const before = openOutbox();
    before.put("one", "queue", {});
    before.put("two", "steer", { model: "a:b" });
    const after = openOutbox();
    expect(unsentTexts(after)).toEqual(["one", "two"]);
    expect(asked[1]?.key).toBe(asked[0]?.key);
    expect((after.unsent.get()[1] as Unsent).model).toBe("a:b");
  });

  test("keeps no message that has arrived", async () => {
    const outbox = openOutbox();
    outbox.put("one", "queue", {});
    await asked[0]?.answer(202, { number: 1 });
    outbox.reconcile(transcriptAt(1, [promptAt(1, "one")]));
    expect(unsentTexts(openOutbox())).toEqual([]);
  });

  test("two tabs do not overwrite each other's messages", () => {
    const [one, other] = [openOutbox(), openOutbox()];
    one.put("of one", "queue", {});
    other.put("of the other", "queue", {});
    expect(unsentTexts(openOutbox()).sort()).toEqual(["of one", "of the other"]);
  });
});

describe("a message in the history", () => {
  test("is shown as unsent until the stream shows it", async () => {
    const outbox = openOutbox();
    outbox.reconcile(transcriptAt(1, [promptAt(1, "before")]));
    outbox.put("one", "queue", {});
    await asked[0]?.answer(202, { number: 3 });
    outbox.reconcile(transcriptAt(2, [promptAt(1, "before"), promptAt(2, "else")]));
    expect(unsentTexts(outbox)).toEqual(["one"]);
    outbox.reconcile(
      transcriptAt(3, [promptAt(1, "before"), promptAt(2, "else"), promptAt(3, "one")]),
    );
    expect(unsentTexts(outbox)).toEqual([]);
  });

  test("is not shown twice when the stream is faster than the response", async () => {
    const outbox = openOutbox();
    outbox.reconcile(transcriptAt(1, [promptAt(1, "one")]));
    outbox.put("one", "queue", {});
    expect(unsentTexts(outbox)).toEqual(["one"]);
    outbox.reconcile(transcriptAt(2, [promptAt(1, "one"), promptAt(2, "one")]));
    expect(unsentTexts(outbox)).toEqual([]);
    await asked[0]?.answer(202, { number: 2 });
    expect(unsentTexts(openOutbox())).toEqual([]);
  });

  test("is shown again when the same text came from elsewhere", async () => {
    const outbox = openOutbox();
    outbox.reconcile(transcriptAt(1, []));
    outbox.put("one", "queue", {});
    outbox.reconcile(transcriptAt(2, [promptAt(1, "one")]));
    await asked[0]?.answer(202, { number: 2 });
    expect(unsentTexts(outbox)).toEqual(["one"]);
  });

  test("one new message in the chat matches one unsent message and not two", () => {
    const outbox = openOutbox();
    outbox.reconcile(transcriptAt(1, []));
    outbox.put("one", "queue", {});
    outbox.put("one", "queue", {});
    outbox.reconcile(transcriptAt(2, [promptAt(1, "one")]));
    expect(unsentTexts(outbox)).toEqual(["one"]);
  });
});

describe("a message in the queue", () => {
  test("is shown as unsent until the queue shows it, whatever other events arrive", async () => {
    const outbox = openOutbox();
    outbox.reconcile(transcriptAt(1, [promptAt(1, "before")]));
    outbox.put("one", "queue", {});
    await asked[0]?.answer(202, { queued: "q" });
    outbox.reconcile(transcriptAt(2, [promptAt(1, "before")]));
    expect(unsentTexts(outbox)).toEqual(["one"]);
    outbox.reconcile(transcriptAt(3, [promptAt(1, "before")], [queuedMessage("q", "one")]));
    expect(unsentTexts(outbox)).toEqual([]);
  });

  test("disappears at once when the queue showed it before the response", async () => {
    const outbox = openOutbox();
    outbox.reconcile(transcriptAt(1, []));
    outbox.put("one", "queue", {});
    outbox.reconcile(transcriptAt(2, [], [queuedMessage("q", "one")]));
    expect(unsentTexts(outbox)).toEqual([]);
    await asked[0]?.answer(202, { queued: "q" });
    expect(unsentTexts(openOutbox())).toEqual([]);
    expect(asked).toHaveLength(1);
  });

  test("disappears when it was delivered before the queue event", async () => {
    const outbox = openOutbox();
    outbox.reconcile(transcriptAt(1, [promptAt(1, "before")]));
    outbox.put("one", "queue", {});
    await asked[0]?.answer(202, { queued: "q" });
    expect(asked[1]?.method).toBe("GET");
    await asked[1]?.answer(200, { snapshot_version: 5 });
    // Told of the chat, and not yet of its messages.
    const half = transcriptAt(5, [promptAt(1, "before")]);
    outbox.reconcile({ ...half, chat: { ...half.chat, messages: 2 } as Snapshot });
    expect(unsentTexts(outbox)).toEqual(["one"]);
    outbox.reconcile(transcriptAt(5, [promptAt(1, "before"), promptAt(2, "one")]));
    expect(unsentTexts(outbox)).toEqual([]);
    expect(unsentTexts(openOutbox())).toEqual([]);
  });

  test("disappears when it was removed before the queue event", async () => {
    const outbox = openOutbox();
    outbox.put("one", "queue", {});
    await asked[0]?.answer(202, { queued: "q" });
    outbox.reconcile(transcriptAt(4, [promptAt(1, "before")]));
    await asked[1]?.answer(200, { snapshot_version: 4 });
    expect(unsentTexts(outbox)).toEqual([]);
  });

  test("is looked up again after a reload", async () => {
    const before = openOutbox();
    before.put("one", "queue", {});
    await asked[0]?.answer(202, { queued: "q" });
    const after = openOutbox();
    await asked[2]?.answer(200, { snapshot_version: 7 });
    after.reconcile(transcriptAt(7, [promptAt(1, "one")]));
    expect(unsentTexts(after)).toEqual([]);
    expect(asked.filter((each) => each.method === "POST")).toHaveLength(1);
  });
});
