import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { EventStream, type StreamOptions } from "./event-stream";
import { type Browser, connect, fakeBrowser, restoreBrowser } from "./fake-browser";
import { outage, retryAll } from "./outage";
import { forgetSessionKey, storeSessionKey } from "./session-key";

interface TestEvent {
  readonly id: string | null;
  readonly event: string;
  readonly data: unknown;
}

let browser: Browser;
let batches: TestEvent[][];
let streams: EventStream<TestEvent>[];

beforeEach(() => {
  browser = fakeBrowser();
  batches = [];
  streams = [];
});
afterEach(() => {
  for (const line of streams) line.close();
  restoreBrowser();
});

function streamOf(options: Partial<StreamOptions<TestEvent>> = {}): EventStream<TestEvent> {
  const line = new EventStream<TestEvent>({
    path: "/api/v1/stream",
    onEvents: (events) => batches.push([...events]),
    ...options,
  });
  streams.push(line);
  return line;
}

const frame = () => vi.advanceTimersByTime(20);

it("a connection sends the session key as a subprotocol", () => {
  expect(connect(browser, streamOf()).protocols).toEqual(["holdfast"]);
  storeSessionKey("hfk_1");
  expect(connect(browser, streamOf()).protocols).toEqual(["holdfast", "hfk_1"]);
  forgetSessionKey();
});

describe("events", () => {
  it("are delivered once per frame, in order", () => {
    const socket = connect(browser, streamOf());
    socket.send("chat", 1, "1");
    socket.send("chat", 2, "2");
    expect(batches).toEqual([]);
    frame();
    socket.send("chat", 3, "3");
    frame();
    expect(batches.map((events) => events.map(({ data }) => data))).toEqual([[1, 2], [3]]);
  });

  it("are delivered in a hidden tab too", () => {
    vi.stubGlobal("requestAnimationFrame", () => 0);
    vi.stubGlobal("cancelAnimationFrame", () => {});
    connect(browser, streamOf()).send("chat", 1, "1");
    vi.advanceTimersByTime(250);
    expect(batches).toHaveLength(1);
  });

  it("do not include the heartbeat", () => {
    connect(browser, streamOf()).send("beat");
    frame();
    expect(batches).toEqual([]);
  });
});

describe("a connection that breaks", () => {
  it("is opened again after the last processed event", () => {
    const line = streamOf();
    const socket = connect(browser, line);
    socket.send("chat", 1, "7");
    socket.send("delta", 2);
    socket.break();
    expect(batches.flat()).toHaveLength(2);
    expect(line.state.get()).toEqual({ is: "broken", retryAt: Date.now() + 500, tries: 1 });
    vi.advanceTimersByTime(500);
    expect(browser.last.cursor).toBe("7");
    browser.last.accept();
    expect(line.state.get()).toEqual({ is: "open" });
  });

  it("starts at the given cursor until an event was processed", () => {
    const socket = connect(browser, streamOf({ from: () => "from" }));
    expect(socket.cursor).toBe("from");
    socket.send("chat", 1, "8");
    frame();
    socket.break();
    vi.advanceTimersByTime(500);
    expect(browser.last.cursor).toBe("8");
  });

  it("is retried with growing waits up to a limit", () => {
    const line = streamOf();
    line.open();
    vi.advanceTimersByTime(0);
    const waits: number[] = [];
    for (let each = 0; each < 7; each += 1) {
      browser.last.break();
      const state = line.state.get();
      if (state.is !== "broken") throw new Error(state.is);
      waits.push(state.retryAt - Date.now());
      vi.advanceTimersByTime(state.retryAt - Date.now());
    }
    expect(waits).toEqual([500, 1000, 2000, 4000, 8000, 10_000, 10_000]);
  });

  it("keeps its wait when the server accepts and closes again and again", () => {
    const line = streamOf();
    connect(browser, line).break();
    vi.advanceTimersByTime(500);
    browser.last.accept();
    browser.last.send("end", { reason: "failed", reconnect: true });
    expect(line.state.get()).toMatchObject({ is: "broken", tries: 2 });
  });

  it("starts again with the first wait after it was stable", () => {
    const line = streamOf();
    connect(browser, line).break();
    vi.advanceTimersByTime(500);
    browser.last.accept();
    vi.advanceTimersByTime(6_000);
    browser.last.break();
    expect(line.state.get()).toMatchObject({ tries: 1 });
  });

  it("ignores everything that still arrives on the old socket", () => {
    const line = streamOf();
    const old = connect(browser, line);
    old.break();
    vi.advanceTimersByTime(500);
    browser.last.accept();
    old.send("chat", 1, "1");
    old.break();
    frame();
    expect(batches).toEqual([]);
    expect(line.state.get()).toEqual({ is: "open" });
    expect(browser.live).toEqual([browser.last]);
  });

  it("includes one that sends invalid JSON", () => {
    const line = streamOf();
    connect(browser, line).onmessage?.({ data: "<html>" });
    expect(line.state.get().is).toBe("broken");
  });
});

describe("events whose processing failed", () => {
  it("are requested again", () => {
    let works = false;
    const seen: unknown[] = [];
    const line = streamOf({
      onEvents: (events) => {
        if (!works) throw new Error("no");
        seen.push(...events.map(({ data }) => data));
      },
    });
    const socket = connect(browser, line);
    socket.send("chat", 1, "1");
    frame();
    expect(reportError).toHaveBeenCalledOnce();
    expect(line.state.get().is).toBe("broken");
    works = true;
    vi.advanceTimersByTime(500);
    expect(browser.last.cursor).toBeNull();
    browser.last.accept();
    browser.last.send("chat", 1, "1");
    frame();
    expect(seen).toEqual([1]);
  });
});

describe("an end event", () => {
  it("with reconnect reconnects at once, without waiting for the close", () => {
    const line = streamOf();
    const socket = connect(browser, line);
    socket.send("chat", 1, "5");
    socket.send("end", { reason: "shutdown", reconnect: true });
    expect(socket.closed).toBe(true);
    socket.break();
    expect(line.state.get()).toMatchObject({ is: "broken", tries: 1 });
    vi.advanceTimersByTime(500);
    expect(browser.sockets).toHaveLength(2);
    expect(browser.last.cursor).toBe("5");
  });

  it("without reconnect ends the stream after the events before it", () => {
    const line = streamOf();
    const states: string[] = [];
    line.state.subscribe(() => states.push(`${line.state.get().is} after ${batches.length}`));
    const socket = connect(browser, line);
    socket.send("chat", 1, "5");
    socket.send("end", { reason: "deleted", reconnect: false });
    socket.break();
    expect(line.state.get()).toEqual({ is: "ended", reason: "deleted" });
    expect(states.at(-1)).toBe("ended after 1");
    browser.fire("online");
    vi.advanceTimersByTime(60_000);
    expect(browser.sockets).toHaveLength(1);
  });
});

describe("a connection that is refused", () => {
  it("ends the stream when mayRetry says so", async () => {
    const line = streamOf({ mayRetry: async () => false });
    line.open();
    vi.advanceTimersByTime(0);
    browser.last.break();
    await vi.advanceTimersByTimeAsync(0);
    expect(line.state.get()).toEqual({ is: "ended", reason: "refused" });
    await vi.advanceTimersByTimeAsync(60_000);
    expect(browser.sockets).toHaveLength(1);
  });

  it("is retried when mayRetry allows it", async () => {
    const line = streamOf({ mayRetry: async () => true });
    line.open();
    vi.advanceTimersByTime(0);
    browser.last.break();
    await vi.advanceTimersByTimeAsync(500);
    expect(browser.sockets).toHaveLength(2);
  });

  it("does not ask mayRetry when it was open", async () => {
    const mayRetry = vi.fn(async () => false);
    const line = streamOf({ mayRetry });
    connect(browser, line).break();
    await vi.advanceTimersByTimeAsync(500);
    expect(mayRetry).not.toHaveBeenCalled();
    expect(browser.sockets).toHaveLength(2);
  });

  it.each(["close", "close and open"])("does nothing after a %s meanwhile", async (how) => {
    let answer: (may: boolean) => void = () => {};
    const asked = new Promise<boolean>((resolve) => {
      answer = resolve;
    });
    const line = streamOf({ mayRetry: () => asked });
    line.open();
    vi.advanceTimersByTime(0);
    browser.last.break();
    line.close();
    if (how === "close and open") line.open();
    answer(false);
    await vi.advanceTimersByTimeAsync(1_000);
    expect(line.state.get().is).not.toBe("ended");
    expect(browser.sockets).toHaveLength(how === "close" ? 1 : 2);
  });

  it("is not ended by an answer of mayRetry that came after a successful retry", async () => {
    let answer: (may: boolean) => void = () => {};
    const line = streamOf({ mayRetry: () => new Promise((resolve) => (answer = resolve)) });
    line.open();
    vi.advanceTimersByTime(0);
    browser.last.break();
    vi.advanceTimersByTime(500);
    browser.last.accept();
    answer(false);
    await vi.advanceTimersByTimeAsync(0);
    expect(line.state.get()).toEqual({ is: "open" });
  });
});

describe("opening and closing", () => {
  it("makes one connection for open, close, open in one tick", () => {
    const line = streamOf();
    line.open();
    line.close();
    line.open();
    line.open();
    vi.advanceTimersByTime(1_000);
    expect(browser.sockets).toHaveLength(1);
  });

  it("delivers nothing after the close, and resumes there when opened again", () => {
    const line = streamOf();
    const socket = connect(browser, line);
    socket.send("chat", 1, "1");
    line.close();
    frame();
    expect(batches).toEqual([]);
    expect(socket.closed).toBe(true);
    line.open();
    vi.advanceTimersByTime(0);
    expect(browser.last.cursor).toBeNull();
    browser.last.accept();
    browser.last.send("chat", 1, "1");
    frame();
    expect(batches.flat()).toHaveLength(1);
  });

  it("stays closed when processing the last events closed it", () => {
    const line: EventStream<TestEvent> = streamOf({ onEvents: () => line.close() });
    const socket = connect(browser, line);
    socket.send("chat", 1, "1");
    socket.break();
    vi.advanceTimersByTime(60_000);
    expect(browser.sockets).toHaveLength(1);
  });

  it("leaves no timer and no listener behind", () => {
    const line = streamOf();
    connect(browser, line);
    line.close();
    expect(vi.getTimerCount()).toBe(0);
    browser.fire("online");
    browser.show(true);
    expect(browser.sockets).toHaveLength(1);
  });
});

describe("silence", () => {
  it("of forty seconds breaks the connection", () => {
    const line = streamOf();
    const socket = connect(browser, line);
    vi.advanceTimersByTime(30_000);
    socket.send("beat");
    vi.advanceTimersByTime(30_000);
    expect(line.state.get().is).toBe("open");
    vi.advanceTimersByTime(10_000);
    expect(line.state.get().is).toBe("broken");
    expect(socket.closed).toBe(true);
  });

  it("before the connection opens breaks it sooner", () => {
    const line = streamOf();
    line.open();
    vi.advanceTimersByTime(10_000);
    expect(line.state.get()).toMatchObject({ is: "broken", tries: 1 });
  });

  it("while the computer slept is noticed when the page becomes visible", () => {
    const line = streamOf();
    connect(browser, line);
    browser.show(false);
    vi.setSystemTime(Date.now() + 3_600_000); // no timer has run
    browser.show(true);
    expect(browser.sockets).toHaveLength(2);
    expect(browser.live).toEqual([browser.last]);
  });
});

describe("the network", () => {
  it("that is lost breaks the connection, and reconnects at once when it is back", () => {
    const line = streamOf();
    connect(browser, line);
    browser.fire("offline");
    expect(line.state.get().is).toBe("broken");
    browser.fire("online");
    expect(browser.sockets).toHaveLength(2);
  });

  it("is tried by one connection at a time, however often the page becomes visible", () => {
    const line = streamOf();
    connect(browser, line).break();
    browser.show(true);
    browser.show(true);
    browser.fire("online");
    line.retry();
    vi.advanceTimersByTime(5_000);
    expect(browser.live).toHaveLength(1);
    expect(browser.sockets).toHaveLength(2);
  });
});

describe("a revoked stream", () => {
  const revoked = { reason: "revoked", reconnect: false };

  it.each([
    [true, "broken", 2],
    [false, "ended", 1],
  ])("may be the session of before: %j, and then it is %s", async (may, is, sockets) => {
    const line = streamOf({ mayRetry: async () => may });
    connect(browser, line).send("end", revoked);
    await vi.advanceTimersByTimeAsync(0);
    expect(line.state.get().is).toBe(is);
    await vi.advanceTimersByTimeAsync(1_000);
    expect(browser.sockets).toHaveLength(sockets);
  });

  it("ends without mayRetry", async () => {
    const line = streamOf({});
    connect(browser, line).send("end", revoked);
    await vi.advanceTimersByTimeAsync(0);
    expect(line.state.get()).toEqual({ is: "ended", reason: "revoked" });
  });
});

describe("two streams that break together", () => {
  /** The second one later, so that it is tried later. */
  function broken() {
    const both = [streamOf(), streamOf()] as const;
    for (const socket of both.map((line) => connect(browser, line))) {
      socket.break();
      vi.advanceTimersByTime(100);
    }
    return both;
  }

  it("are one outage, which ends when both are connected or closed", () => {
    const [first, second] = broken();
    expect(outage.get()).toEqual(retriesOf(first));
    first.close();
    expect(outage.get()).toEqual(retriesOf(second));
    second.close();
    expect(outage.get()).toBeNull();
  });

  it("reconnect together as soon as one of them does", () => {
    const [first, second] = broken();
    vi.advanceTimersByTime(350);
    expect(browser.live).toHaveLength(1);
    browser.last.accept();
    expect(browser.live).toHaveLength(2);
    browser.last.accept();
    expect([first.state.get().is, second.state.get().is]).toEqual(["open", "open"]);
    expect(outage.get()).toBeNull();
  });

  it("are both retried on request", () => {
    broken();
    retryAll();
    expect(browser.live).toHaveLength(2);
  });

  function retriesOf(line: EventStream<TestEvent>) {
    const now = line.state.get();
    return now.is === "broken" ? { retryAt: now.retryAt, tries: now.tries } : null;
  }
});
