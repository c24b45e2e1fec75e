/** Search results of the server, fetched while the user types. */

import { useEffect, useState } from "react";
import { Problem } from "../api/problem";
import { call } from "../api/request";
import type { Chat } from "../api/types";
import type { searchQueryOf } from "./query";

/** Letters come faster than answers. */
const PAUSE = 180;
/** Until it is asked again, when not everything was looked at. */
const RETRY_AFTER = 1_500;

export interface SearchResults {
  /** Null: nothing was looked for. What was found last stays until there is something else. */
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

/** What it gives stops it. */
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
