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
  /** Stops following. */
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
      const toEnd = outer.scrollHeight - outer.scrollTop - outer.clientHeight;
      // Scrolling up a little stops following; coming near the end resumes it.
      if (toEnd <= 2) set(true);
      else if (isUp) set(false);
      else if (toEnd <= NEAR) set(true);
    };
    // After each layout, before paint: no frame shows another position.
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
  // Follows new content at once: the observer would need a second layout.
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
 * Keeps the visible rows in place when rows are added above. Not all browsers do this, and none at
 * the very top; the browser's own scroll anchoring is turned off meanwhile.
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

/** Frames until rows that become visible have their real height. */
const FRAMES = 4;

/** Keeps a row at a distance from the top of the scroll area, unless the user scrolls. */
export function holdPosition(outer: HTMLElement, key: string, wanted: number): void {
  let expected = outer.scrollTop;
  const correct = () => {
    const top = topOf(outer, key);
    // Limited by the content's height: a shorter content moves the position without scrolling.
    const limit = Math.min(expected, outer.scrollHeight - outer.clientHeight);
    if (top === null || Math.abs(outer.scrollTop - limit) > 1) {
      end();
      return;
    }
    const off = top - outer.scrollTop - wanted;
    if (Math.abs(off) >= 1) outer.scrollTop += off;
    expected = outer.scrollTop;
  };
  // After each layout, before paint: no frame shows another position.
  const sized = new ResizeObserver(correct);
  const end = () => {
    sized.disconnect();
    outer.style.overflowAnchor = "";
  };
  outer.style.overflowAnchor = "none";
  correct();
  // Far above, rows in between may change too: the browser's own anchoring is better there.
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

/** Position of a row in the scrolled content; null if it is not rendered. */
function topOf(outer: HTMLElement, key: string): number | null {
  const row = outer.querySelector(`[data-row="${CSS.escape(key)}"]`);
  if (row === null) return null;
  return row.getBoundingClientRect().top - outer.getBoundingClientRect().top + outer.scrollTop;
}
