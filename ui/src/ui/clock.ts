/** Hooks for the current time and for countdowns. */

import { useEffect, useState } from "react";

/** The current time, updated while the page is visible. */
export function useNow(every: number): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), every);
    return () => clearInterval(timer);
  }, [every]);
  return now;
}

/** Whole seconds until a time; 0 when it has passed. */
export function secondsUntil(at: number, now: number): number {
  return Math.max(0, Math.ceil((at - now) / 1_000));
}

/** Whole seconds until a time. All countdowns to the same time tick together. */
export function useSecondsUntil(at: number): number {
  const [secondsLeft, setLeft] = useState(() => secondsUntil(at, Date.now()));
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const tick = () => {
      const now = Date.now();
      setLeft(secondsUntil(at, now));
      if (at > now) timer = setTimeout(tick, ((at - now) % 1_000) + 1);
    };
    tick();
    return () => clearTimeout(timer);
  }, [at]);
  return secondsLeft;
}
