import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { NO_RESULTS, type SearchResults, searchAfterPause } from "./server-results";

interface Asked {
  readonly url: string;
  readonly signal: AbortSignal;
  answer(body: unknown, status?: number): void;
}

let requests: Asked[];
let results: SearchResults;
const set = (change: (before: SearchResults) => SearchResults) => {
  results = change(results);
};

beforeEach(() => {
  vi.useFakeTimers();
  requests = [];
  results = { ...NO_RESULTS, isReading: true };
  vi.stubGlobal("fetch", (url: string, { signal }: { signal: AbortSignal }) => {
    return new Promise((resolve, reject) => {
      signal.addEventListener("abort", () => reject(new DOMException("", "AbortError")));
      const answer = (body: unknown, status = 200) =>
        resolve(new Response(JSON.stringify(body), { status }));
      requests.push({ url, signal, answer });
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
const settle = () => vi.advanceTimersByTimeAsync(0);

describe("a search", () => {
  it("is sent after a pause in typing", async () => {
    searchAfterPause({ limit: 50, q: "a" }, set)();
    searchAfterPause({ limit: 50, q: "ab" }, set);
    await vi.advanceTimersByTimeAsync(1_000);
    expect(requests.map(({ url }) => url)).toEqual(["/api/v1/chats?limit=50&q=ab"]);
  });

  it("is cancelled by another search, and its response is dropped", async () => {
    const stop = searchAfterPause({ limit: 50, q: "a" }, set);
    await vi.advanceTimersByTimeAsync(200);
    stop();
    await settle();
    expect(requests[0]?.signal.aborted).toBe(true);
    expect(results.problem).toBeNull();
  });

  it("is repeated while the index is incomplete", async () => {
    searchAfterPause({ limit: 50, q: "a" }, set);
    await vi.advanceTimersByTimeAsync(200);
    requests[0]?.answer({ ...page("c1"), complete: false });
    await settle();
    expect(results).toMatchObject({ complete: false, isReading: false });
    await vi.advanceTimersByTimeAsync(1_500);
    requests[1]?.answer(page("c1", "c2"));
    await settle();
    expect(results.chats).toHaveLength(2);
    expect(results.complete).toBe(true);
  });

  it("keeps the earlier results after an error, and shows the error", async () => {
    results = { ...NO_RESULTS, chats: [], isReading: true };
    searchAfterPause({ limit: 50, q: "!!" }, set);
    await vi.advanceTimersByTimeAsync(200);
    requests[0]?.answer({ kind: "bad_request", status: 400, detail: "no word" }, 400);
    await settle();
    expect(results).toMatchObject({ chats: [], isReading: false, problem: { message: "no word" } });
  });
});
