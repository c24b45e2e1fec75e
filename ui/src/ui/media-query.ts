/** Hooks for media queries. */

import { useSyncExternalStore } from "react";

/** Whether a condition about the screen holds. */
export function useMediaQuery(query: string): boolean {
  return useSyncExternalStore(
    (onChange) => {
      const media = matchMedia(query);
      media.addEventListener("change", onChange);
      return () => media.removeEventListener("change", onChange);
    },
    () => matchMedia(query).matches,
  );
}

/** Screens that show one pane at a time. app.css has the same width. */
export const NARROW_SCREEN = "(max-width: 720px)";

export function useNarrow(): boolean {
  return useMediaQuery(NARROW_SCREEN);
}

/** Whether the pointer is a finger: no Shift key, and a keyboard that covers half of the screen. */
export function isCoarse(): boolean {
  return matchMedia("(pointer: coarse)").matches;
}
