import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { EventStream, type StreamOptions } from "./event-stream";
import { type Browser, connected, fakeBrowser, restoreBrowser } from "./fake-browser";
import { outage, retryAll } from "./outage";
import { forgetSessionKey, storeSessionKey } from "./session-key";

interface Told {
  readonly id: string | null;
  readonly event: string;
  readonly data: unknown;
}

let browser: Browser;
let taken: Told[][];
let lines: EventStream<Told>[];

beforeEach(() => {
  browser = fakeBrowser();
  taken = [];
  lines = [];
});
afterEach(() => {
  for (const line of lines) line.close();
  restoreBrowser();
});

function lineOf(options: Partial<StreamOptions<Told>> = {}): EventStream<Told> {
  const line = new EventStream<Told>({
    path: "/api/v1/stream",
    onEvents: (events) => taken.push([...events]),
    ...options,
  });
  lines.push(line);
  return line;
}

const frame = () => vi.advanceTimersByTime(20);

it("a connection shows the key of the session as a protocol", () => {
  expect(connected(browser, lineOf()).protocols).toEqual(["holdfast"]);
  storeSessionKey("hfk_1");
  expect(connected(browser, lineOf()).protocols).toEqual(["holdfast", "hfk_1"]);
  forgetSessionKey();
});

describe("what is said", () => {
  it("is handed on once a frame, in its order", () => {
    const socket = connected(browser, lineOf());
    socket.say("chat", 1, "1");
    socket.say("chat", 2, "2");
    expect(taken).toEqual([]);
    frame();
    socket.say("chat", 3, "3");
    frame();
    expect(taken.map((events) => events.map(({ data }) => data))).toEqual([[1, 2], [3]]);
  });

  it("is handed on in a tab that nobody sees, too", () => {
    vi.stubGlobal("requestAnimationFrame", () => 0);
    vi.stubGlobal("cancelAnimationFrame", () => {});
    connected(browser, lineOf()).say("chat", 1, "1");
    vi.advanceTimersByTime(250);
    expect(taken).toHaveLength(1);
  });

  it("does not name the heartbeat", () => {
    connected(browser, lineOf()).say("beat");
    frame();
    expect(taken).toEqual([]);
  });
});

describe("a connection that breaks", () => {
  it("is opened again from the last event that was taken", () => {
    const line = lineOf();
    const socket = connected(browser, line);
    socket.say("chat", 1, "7");
    socket.say("delta", 2);
    socket.break();
    expect(taken.flat()).toHaveLength(2);
    expect(line.state.get()).toEqual({ is: "broken", retryAt: Date.now() + 500, tries: 1 });
    vi.advanceTimersByTime(500);
    expect(browser.last.cursor).toBe("7");
    browser.last.accept();
    expect(line.state.get()).toEqual({ is: "open" });
  });

  it("begins where it was told to, until something was taken", () => {
    const socket = connected(browser, lineOf({ from: () => "from" }));
    expect(socket.cursor).toBe("from");
    socket.say("chat", 1, "8");
    frame();
    socket.break();
    vi.advanceTimersByTime(500);
    expect(browser.last.cursor).toBe("8");
  });

  it("is waited for longer each time, but not for ever", () => {
    const line = lineOf();
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

  it("is not hurried by a server that lets in and throws out again and again", () => {
    const line = lineOf();
    connected(browser, line).break();
    vi.advanceTimersByTime(500);
    browser.last.accept();
    browser.last.say("end", { reason: "failed", reconnect: true });
    expect(line.state.get()).toMatchObject({ is: "broken", tries: 2 });
  });

  it("is waited for as at first when it had been good for a while", () => {
    const line = lineOf();
    connected(browser, line).break();
    vi.advanceTimersByTime(500);
    browser.last.accept();
    vi.advanceTimersByTime(6_000);
    browser.last.break();
    expect(line.state.get()).toMatchObject({ tries: 1 });
  });

  it("says nothing more, whatever still comes on it", () => {
    const line = lineOf();
    const old = connected(browser, line);
    old.break();
    vi.advanceTimersByTime(500);
    browser.last.accept();
    old.say("chat", 1, "1");
    old.break();
    frame();
    expect(taken).toEqual([]);
    expect(line.state.get()).toEqual({ is: "open" });
    expect(browser.live).toEqual([browser.last]);
  });

  it("is one that speaks no JSON, too", () => {
    const line = lineOf();
    connected(browser, line).onmessage?.({ data: "<html>" });
    expect(line.state.get().is).toBe("broken");
  });
});

describe("events that could not be taken", () => {
  it("are asked for again", () => {
    let works = false;
    const seen: unknown[] = [];
    const line = lineOf({
      onEvents: (events) => {
        if (!works) throw new Error("no");
        seen.push(...events.map(({ data }) => data));
      },
    });
    const socket = connected(browser, line);
    socket.say("chat", 1, "1");
    frame();
    expect(reportError).toHaveBeenCalledOnce();
    expect(line.state.get().is).toBe("broken");
    works = true;
    vi.advanceTimersByTime(500);
    expect(browser.last.cursor).toBeNull();
    browser.last.accept();
    browser.last.say("chat", 1, "1");
    frame();
    expect(seen).toEqual([1]);
  });
});

describe("the end that the server says", () => {
  it("is come back from at once when it is worth it, without waiting for the close", () => {
    const line = lineOf();
    const socket = connected(browser, line);
    socket.say("chat", 1, "5");
    socket.say("end", { reason: "shutdown", reconnect: true });
    expect(socket.closed).toBe(true);
    socket.break();
    expect(line.state.get()).toMatchObject({ is: "broken", tries: 1 });
    vi.advanceTimersByTime(500);
    expect(browser.sockets).toHaveLength(2);
    expect(browser.last.cursor).toBe("5");
  });

  it("is the end otherwise, after everything that was said before", () => {
    const line = lineOf();
    const states: string[] = [];
    line.state.subscribe(() => states.push(`${line.state.get().is} after ${taken.length}`));
    const socket = connected(browser, line);
    socket.say("chat", 1, "5");
    socket.say("end", { reason: "deleted", reconnect: false });
    socket.break();
    expect(line.state.get()).toEqual({ is: "ended", reason: "deleted" });
    expect(states.at(-1)).toBe("ended after 1");
    browser.fire("online");
    vi.advanceTimersByTime(60_000);
    expect(browser.sockets).toHaveLength(1);
  });
});

describe("a connection that is refused", () => {
  it("is given up when asking says so", async () => {
    const line = lineOf({ mayRetry: async () => false });
    line.open();
    vi.advanceTimersByTime(0);
    browser.last.break();
    await vi.advanceTimersByTimeAsync(0);
    expect(line.state.get()).toEqual({ is: "ended", reason: "refused" });
    await vi.advanceTimersByTimeAsync(60_000);
    expect(browser.sockets).toHaveLength(1);
  });

  it("is tried again when nothing speaks against it", async () => {
    const line = lineOf({ mayRetry: async () => true });
    line.open();
    vi.advanceTimersByTime(0);
    browser.last.break();
    await vi.advanceTimersByTimeAsync(500);
    expect(browser.sockets).toHaveLength(2);
  });

  it("is not asked about when it was open", async () => {
    const mayRetry = vi.fn(async () => false);
    const line = lineOf({ mayRetry });
    connected(browser, line).break();
    await vi.advanceTimersByTimeAsync(500);
    expect(mayRetry).not.toHaveBeenCalled();
    expect(browser.sockets).toHaveLength(2);
  });

  it.each(["close", "close and open"])("changes nothing after a %s meanwhile", async (how) => {
    let answer: (may: boolean) => void = () => {};
    const asked = new Promise<boolean>((resolve) => {
      answer = resolve;
    });
    const line = lineOf({ mayRetry: () => asked });
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

  it("is not given up for an answer that came after another try had worked", async () => {
    let answer: (may: boolean) => void = () => {};
    const line = lineOf({ mayRetry: () => new Promise((resolve) => (answer = resolve)) });
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
  it("makes one connection for open, close, open in one breath", () => {
    const line = lineOf();
    line.open();
    line.close();
    line.open();
    line.open();
    vi.advanceTimersByTime(1_000);
    expect(browser.sockets).toHaveLength(1);
  });

  it("takes nothing after the close, and asks for it again when opened again", () => {
    const line = lineOf();
    const socket = connected(browser, line);
    socket.say("chat", 1, "1");
    line.close();
    frame();
    expect(taken).toEqual([]);
    expect(socket.closed).toBe(true);
    line.open();
    vi.advanceTimersByTime(0);
    expect(browser.last.cursor).toBeNull();
    browser.last.accept();
    browser.last.say("chat", 1, "1");
    frame();
    expect(taken.flat()).toHaveLength(1);
  });

  it("does not come back when taking the last events closed it", () => {
    const line: EventStream<Told> = lineOf({ onEvents: () => line.close() });
    const socket = connected(browser, line);
    socket.say("chat", 1, "1");
    socket.break();
    vi.advanceTimersByTime(60_000);
    expect(browser.sockets).toHaveLength(1);
  });

  it("leaves no timer and no listener behind", () => {
    const line = lineOf();
    connected(browser, line);
    line.close();
    expect(vi.getTimerCount()).toBe(0);
    browser.fire("online");
    browser.show(true);
    expect(browser.sockets).toHaveLength(1);
  });
});

describe("silence", () => {
  it("of forty seconds is a broken line", () => {
    const line = lineOf();
    const socket = connected(browser, line);
    vi.advanceTimersByTime(30_000);
    socket.say("beat");
    vi.advanceTimersByTime(30_000);
    expect(line.state.get().is).toBe("open");
    vi.advanceTimersByTime(10_000);
    expect(line.state.get().is).toBe("broken");
    expect(socket.closed).toBe(true);
  });

  it("instead of a greeting is a broken line sooner", () => {
    const line = lineOf();
    line.open();
    vi.advanceTimersByTime(10_000);
    expect(line.state.get()).toMatchObject({ is: "broken", tries: 1 });
  });

  it("while the computer slept is noticed when somebody looks", () => {
    const line = lineOf();
    connected(browser, line);
    browser.show(false);
    vi.setSystemTime(Date.now() + 3_600_000); // no timer has run
    browser.show(true);
    expect(browser.sockets).toHaveLength(2);
    expect(browser.live).toEqual([browser.last]);
  });
});

describe("the network", () => {
  it("that is gone breaks the line, and brings it back at once when it returns", () => {
    const line = lineOf();
    connected(browser, line);
    browser.fire("offline");
    expect(line.state.get().is).toBe("broken");
    browser.fire("online");
    expect(browser.sockets).toHaveLength(2);
  });

  it("is not asked twice at once, however often somebody looks", () => {
    const line = lineOf();
    connected(browser, line).break();
    browser.show(true);
    browser.show(true);
    browser.fire("online");
    line.retry();
    vi.advanceTimersByTime(5_000);
    expect(browser.live).toHaveLength(1);
    expect(browser.sockets).toHaveLength(2);
  });
});

describe("a line that is taken back", () => {
  const revoked = { reason: "revoked", reconnect: false };

  it.each([
    [true, "broken", 2],
    [false, "ended", 1],
  ])("may be the session of before: %j, and then it is %s", async (may, is, sockets) => {
    const line = lineOf({ mayRetry: async () => may });
    connected(browser, line).say("end", revoked);
    await vi.advanceTimersByTimeAsync(0);
    expect(line.state.get().is).toBe(is);
    await vi.advanceTimersByTimeAsync(1_000);
    expect(browser.sockets).toHaveLength(sockets);
  });

  it("is over when there is nobody to ask", async () => {
    const line = lineOf({});
    connected(browser, line).say("end", revoked);
    await vi.advanceTimersByTimeAsync(0);
    expect(line.state.get()).toEqual({ is: "ended", reason: "revoked" });
  });
});

describe("two lines that break together", () => {
  /** The second one later, so that it is tried later. */
  function broken() {
    const both = [lineOf(), lineOf()] as const;
    for (const socket of both.map((line) => connected(browser, line))) {
      socket.break();
      vi.advanceTimersByTime(100);
    }
    return both;
  }

  it("are one outage, which ends when both are mended or given up", () => {
    const [first, second] = broken();
    expect(outage.get()).toEqual(retriesOf(first));
    first.close();
    expect(outage.get()).toEqual(retriesOf(second));
    second.close();
    expect(outage.get()).toBeNull();
  });

  it("are back together as soon as one of them is", () => {
    const [first, second] = broken();
    vi.advanceTimersByTime(350);
    expect(browser.live).toHaveLength(1);
    browser.last.accept();
    expect(browser.live).toHaveLength(2);
    browser.last.accept();
    expect([first.state.get().is, second.state.get().is]).toEqual(["open", "open"]);
    expect(outage.get()).toBeNull();
  });

  it("are both tried when somebody says so", () => {
    broken();
    retryAll();
    expect(browser.live).toHaveLength(2);
  });

  function retriesOf(line: EventStream<Told>) {
    const now = line.state.get();
    return now.is === "broken" ? { retryAt: now.retryAt, tries: now.tries } : null;
  }
});
