/**
 * Keeps the scroll position: at the end while output grows, unless the user scrolled away; and in
 * place when rows are added above.
 */

import { type RefObject, useCallback, useEffect, useLayoutEffect, useRef, useState } from "react";

/** Pixels from the end that still count as being there. */
const NEAR = 24;

export interface Follow {
  readonly isFollowing: boolean;
  readonly toNewest: () => void;
  /** Stays where it is from now on. */
  readonly leave: () => void;
}

export function useFollow(
  scroller: RefObject<HTMLElement | null>,
  content: RefObject<HTMLElement | null>,
): Follow {
  const following = useRef(true);
  const [isFollowing, setFollowing] = useState(true);
  const set = useCallback((now: boolean) => {
    following.current = now;
    setFollowing(now);
  }, []);
  useEffect(() => {
    const outer = scroller.current;
    const inner = content.current;
    if (outer === null || inner === null) return;
    let last = outer.scrollTop;
    const onScroll = () => {
      const isUp = outer.scrollTop < last - 1;
      last = outer.scrollTop;
      const left = outer.scrollHeight - outer.scrollTop - outer.clientHeight;
      // Going up a little is enough to leave; coming near is enough to return.
      if (left <= 2) set(true);
      else if (isUp) set(false);
      else if (left <= NEAR) set(true);
    };
    // After each layout, before paint, so that it is never seen elsewhere than at the end.
    const sized = new ResizeObserver(() => {
      if (following.current) outer.scrollTop = outer.scrollHeight;
      last = outer.scrollTop;
    });
    sized.observe(inner);
    sized.observe(outer);
    outer.addEventListener("scroll", onScroll, { passive: true });
    return () => {
      sized.disconnect();
      outer.removeEventListener("scroll", onScroll);
    };
  }, [scroller, content, set]);
  // What was just drawn is followed at once: found out only after the layout, it would mean another.
  useLayoutEffect(() => {
    const outer = scroller.current;
    if (outer !== null && following.current) outer.scrollTop = outer.scrollHeight;
  });
  const toNewest = useCallback(() => {
    const outer = scroller.current;
    if (outer === null) return;
    set(true);
    outer.scrollTop = outer.scrollHeight;
    outer.focus({ preventScroll: true });
  }, [scroller, set]);
  const leave = useCallback(() => set(false), [set]);
  return { isFollowing, toNewest, leave };
}

/**
 * When rows come in front, what was on the screen stays there. Browsers do this by themselves, but
 * not all of them, and none at the very top: so it is done here, and theirs is told to wait.
 */
export function useStableScroll(
  scroller: RefObject<HTMLElement | null>,
  anchor: string | null,
): void {
  const before = useRef<{ anchor: string; top: number } | null>(null);
  useLayoutEffect(() => {
    const outer = scroller.current;
    if (outer === null || anchor === null) {
      before.current = null;
      return;
    }
    const previous = before.current;
    const top = previous === null ? null : topOf(outer, previous.anchor);
    if (previous !== null && top !== null && previous.anchor !== anchor && top > previous.top) {
      holdPosition(outer, previous.anchor, previous.top - outer.scrollTop);
    }
    before.current = { anchor, top: topOf(outer, anchor) ?? 0 };
  }, [scroller, anchor]);
}

/** Rows that come into sight for the first time take their real height only then. */
const FRAMES = 4;

/** Keeps a row so many pixels below the top of what scrolls, unless the user scrolls meanwhile. */
export function holdPosition(outer: HTMLElement, key: string, wanted: number): void {
  let expected = outer.scrollTop;
  const correct = () => {
    const top = topOf(outer, key);
    // As far down as there is still anything: to be moved by what became shorter is not to scroll.
    const left = Math.min(expected, outer.scrollHeight - outer.clientHeight);
    if (top === null || Math.abs(outer.scrollTop - left) > 1) {
      end();
      return;
    }
    const off = top - outer.scrollTop - wanted;
    if (Math.abs(off) >= 1) outer.scrollTop += off;
    expected = outer.scrollTop;
  };
  // After each layout, before paint, so that it is never seen elsewhere.
  const sized = new ResizeObserver(correct);
  const end = () => {
    sized.disconnect();
    outer.style.overflowAnchor = "";
  };
  outer.style.overflowAnchor = "none";
  correct();
  // Far above, rows in between may change too: there the browser knows better.
  if (wanted < -outer.clientHeight) {
    end();
    return;
  }
  for (const part of outer.children) sized.observe(part);
  afterFrames(FRAMES, end);
}

function afterFrames(count: number, then: () => void): void {
  if (count === 0) then();
  else requestAnimationFrame(() => afterFrames(count - 1, then));
}

/** Within what scrolls, wherever that is scrolled to. */
function topOf(outer: HTMLElement, key: string): number | null {
  const row = outer.querySelector(`[data-row="${CSS.escape(key)}"]`);
  if (row === null) return null;
  return row.getBoundingClientRect().top - outer.getBoundingClientRect().top + outer.scrollTop;
}
