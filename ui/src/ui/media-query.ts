/** Hooks for media queries. */

import { useSyncExternalStore } from "react";

/** Whether a condition about the screen holds. */
export function useMedia(query: string): boolean {
  return useSyncExternalStore(
    (tell) => {
      const media = matchMedia(query);
      media.addEventListener("change", tell);
      return () => media.removeEventListener("change", tell);
    },
    () => matchMedia(query).matches,
  );
}

/** One pane at a time. The same width stands in app.css. */
export const NARROW = "(max-width: 720px)";

export function useNarrow(): boolean {
  return useMedia(NARROW);
}

/** A finger: no Shift to hold, and a keyboard that covers half of the screen. */
export function isCoarse(): boolean {
  return matchMedia("(pointer: coarse)").matches;
}
