/** Scrolls to the message that the URL's hash names, once it is loaded. */

import { type RefObject, useEffect, useLayoutEffect, useState } from "react";
import { useStore } from "../reactive/store";
import type { OpenChat } from "../store/open-chat";
import type { Row } from "../store/rows";
import { isLoaded } from "../store/transcript";
import { numberOf } from "./chunks";
import { holdPosition } from "./follow-output";

/** The number in a hash like `#m12`; null for any other. */
export function messageNumberIn(hash: string): number | null {
  const number = /^#m(\d{1,15})$/.exec(hash)?.[1];
  return number === undefined ? null : Number(number);
}

/**
 * The keys of rows that may show a message, the likeliest first: a result is in the row of its
 * call, and consecutive reads are in the row of the first of them.
 */
export function rowKeysFor(rows: readonly Row[], number: number): readonly string[] {
  const before = rows.filter((row) => numberOf(row) <= number);
  return (before.length > 0 ? before.toReversed() : rows.slice(0, 1)).map(({ key }) => key);
}

/** Pixels between the message and the top of the scroll area. */
const ROOM = 16;

/** Scrolls to the message in the URL's hash. `onGo`: called before. */
export function useScrollToMessage(
  chat: OpenChat,
  scroller: RefObject<HTMLElement | null>,
  rows: readonly Row[],
  onGo: () => void,
): void {
  const [wanted, want] = useState(() => messageNumberIn(location.hash));
  const more = useStore(chat.transcript, ({ moreBefore }) => moreBefore);
  // Before all messages are loaded, the message would be at the end, which is followed.
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
