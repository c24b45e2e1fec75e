import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { NO_RESULTS, type SearchResults, searchAfterPause } from "./server-results";

interface Asked {
  readonly url: string;
  readonly signal: AbortSignal;
  answer(body: unknown, status?: number): void;
}

let asked: Asked[];
let found: SearchResults;
const set = (change: (before: SearchResults) => SearchResults) => {
  found = change(found);
};

beforeEach(() => {
  vi.useFakeTimers();
  asked = [];
  found = { ...NO_RESULTS, isReading: true };
  vi.stubGlobal("fetch", (url: string, { signal }: { signal: AbortSignal }) => {
    return new Promise((resolve, reject) => {
      signal.addEventListener("abort", () => reject(new DOMException("", "AbortError")));
      const answer = (body: unknown, status = 200) =>
        resolve(new Response(JSON.stringify(body), { status }));
      asked.push({ url, signal, answer });
    });
  });
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

const page = (...ids: string[]) => ({
  chats: ids.map((id) => ({ id })),
  next: null,
  complete: true,
});
const settled = () => vi.advanceTimersByTimeAsync(0);

describe("what is looked for", () => {
  it("is asked when nothing was written for a moment", async () => {
    searchAfterPause({ limit: 50, q: "a" }, set)();
    searchAfterPause({ limit: 50, q: "ab" }, set);
    await vi.advanceTimersByTimeAsync(1_000);
    expect(asked.map(({ url }) => url)).toEqual(["/api/v1/chats?limit=50&q=ab"]);
  });

  it("is given up when something else is looked for, and its answer dropped", async () => {
    const stop = searchAfterPause({ limit: 50, q: "a" }, set);
    await vi.advanceTimersByTimeAsync(200);
    stop();
    await settled();
    expect(asked[0]?.signal.aborted).toBe(true);
    expect(found.problem).toBeNull();
  });

  it("is asked again while not everything was looked at", async () => {
    searchAfterPause({ limit: 50, q: "a" }, set);
    await vi.advanceTimersByTimeAsync(200);
    asked[0]?.answer({ ...page("c1"), complete: false });
    await settled();
    expect(found).toMatchObject({ complete: false, isReading: false });
    await vi.advanceTimersByTimeAsync(1_500);
    asked[1]?.answer(page("c1", "c2"));
    await settled();
    expect(found.chats).toHaveLength(2);
    expect(found.complete).toBe(true);
  });

  it("leaves what was found before when it cannot be had, and says why", async () => {
    found = { ...NO_RESULTS, chats: [], isReading: true };
    searchAfterPause({ limit: 50, q: "!!" }, set);
    await vi.advanceTimersByTimeAsync(200);
    asked[0]?.answer({ kind: "bad_request", status: 400, detail: "no word" }, 400);
    await settled();
    expect(found).toMatchObject({ chats: [], isReading: false, problem: { message: "no word" } });
  });
});
