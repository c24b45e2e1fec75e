/** Search results of the server, fetched while the user types. */

import { useEffect, useState } from "react";
import { Problem } from "../api/problem";
import { call } from "../api/request";
import type { Chat } from "../api/types";
import type { searchQueryOf } from "./query";

/** Debounce: typing is faster than responses. */
const PAUSE = 180;
/** Delay before the search is repeated when the index was incomplete. */
const RETRY_AFTER = 1_500;

export interface SearchResults {
  /** Null without a query. Earlier results stay until new ones arrive. */
  readonly chats: readonly Chat[] | null;
  readonly isReading: boolean;
  /** There are more than are shown. */
  readonly more: boolean;
  /** Some messages are too new to be found yet. */
  readonly complete: boolean;
  readonly problem: Problem | null;
}

export const NO_RESULTS: SearchResults = {
  chats: null,
  isReading: false,
  more: false,
  complete: true,
  problem: null,
};

export function useServerResults(query: ReturnType<typeof searchQueryOf>): SearchResults {
  const [results, setResults] = useState(NO_RESULTS);
  const text = query === null ? null : JSON.stringify(query);
  useEffect(() => {
    if (text === null) return setResults(NO_RESULTS);
    setResults((before) => ({ ...before, isReading: true }));
    return searchAfterPause(JSON.parse(text), setResults);
  }, [text]);
  return results;
}

/** Fetches results after a pause; returns a stop function. */
export function searchAfterPause(
  query: NonNullable<ReturnType<typeof searchQueryOf>>,
  set: (change: (before: SearchResults) => SearchResults) => void,
): () => void {
  const stop = new AbortController();
  let timer: ReturnType<typeof setTimeout>;
  const read = async () => {
    try {
      const page = await call("GET /chats", { query, signal: stop.signal });
      const { chats, next, complete = true } = page;
      set(() => ({ chats, more: next !== null, complete, isReading: false, problem: null }));
      if (!complete) timer = setTimeout(read, RETRY_AFTER);
    } catch (error) {
      if (stop.signal.aborted) return;
      set((before) => ({ ...before, isReading: false, problem: Problem.of(error) }));
    }
  };
  timer = setTimeout(read, PAUSE);
  return () => {
    clearTimeout(timer);
    stop.abort();
  };
}
