/** Scrolls to the message that the URL's hash names, once it is loaded. */

import { type RefObject, useEffect, useLayoutEffect, useState } from "react";
import { useStore } from "../reactive/store";
import type { OpenChat } from "../store/open-chat";
import type { Row } from "../store/rows";
import { isLoaded } from "../store/transcript";
import { numberOf } from "./chunks";
import { holdPosition } from "./follow-output";

/** Of an address that ends with #m12: 12. */
export function messageNumberIn(hash: string): number | null {
  const found = /^#m(\d{1,15})$/.exec(hash)?.[1];
  return found === undefined ? null : Number(found);
}

/**
 * The keys of rows that may show a message, the likeliest first: what a tool said stands in the row
 * of its call, and rows that only look are put together under the first of them.
 */
export function rowKeysFor(rows: readonly Row[], number: number): readonly string[] {
  const before = rows.filter((row) => numberOf(row) <= number);
  return (before.length > 0 ? before.toReversed() : rows.slice(0, 1)).map(({ key }) => key);
}

/** Pixels between it and the top of what scrolls. */
const ROOM = 16;

/** `onGo`: before it is gone there. */
export function useScrollToMessage(
  chat: OpenChat,
  scroller: RefObject<HTMLElement | null>,
  rows: readonly Row[],
  onGo: () => void,
): void {
  const [wanted, want] = useState(() => messageNumberIn(location.hash));
  const more = useStore(chat.transcript, ({ moreBefore }) => moreBefore);
  // Before, there is nothing behind it yet: it would be at the end, which is followed.
  const isWhole = useStore(chat.transcript, isLoaded);
  const hasFailed = useStore(chat.earlier, ({ is }) => is === "failed");
  useEffect(() => {
    const look = () => want(messageNumberIn(location.hash));
    addEventListener("hashchange", look);
    return () => removeEventListener("hashchange", look);
  }, []);
  useLayoutEffect(() => {
    const [first] = rows;
    const outer = scroller.current;
    if (wanted === null || !isWhole || first === undefined || outer === null) return;
    if (wanted < numberOf(first) && more !== null) {
      // A manual retry continues from there.
      if (!hasFailed) void chat.readEarlier();
      return;
    }
    const key = rowKeysFor(rows, wanted).find((each) =>
      outer.querySelector(`[data-row="${each}"]`),
    );
    want(null);
    if (key === undefined) return;
    onGo();
    holdPosition(outer, key, ROOM);
  }, [chat, scroller, rows, wanted, isWhole, more, hasFailed, onGo]);
}
