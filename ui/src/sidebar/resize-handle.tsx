/** The handle that resizes the sidebar. */

import { type KeyboardEvent, type PointerEvent, useRef } from "react";
import { useStore } from "../reactive/store";
import { preferences, setPreferences } from "../store/preferences";

export const MIN_WIDTH = 200;
export const MAX_WIDTH = 420;
const DEFAULT_WIDTH = 272;
const STEP = 16;

export function clamped(width: number): number {
  return Math.round(Math.min(MAX_WIDTH, Math.max(MIN_WIDTH, width)));
}

/** Resizes the sidebar by dragging or arrow keys. A double click resets it. */
export function ResizeHandle() {
  const width = useStore(preferences, (now) => now.sidebarWidth);
  const drag = useRef<{ x: number; width: number } | null>(null);
  const begin = (event: PointerEvent<HTMLElement>) => {
    event.currentTarget.setPointerCapture(event.pointerId);
    drag.current = { x: event.clientX, width };
  };
  const move = (event: PointerEvent<HTMLElement>) => {
    if (drag.current === null) return;
    const sidebarWidth = clamped(drag.current.width + event.clientX - drag.current.x);
    // Stored on release, not with each pixel.
    preferences.change((now) => ({ ...now, sidebarWidth }));
  };
  const end = () => {
    if (drag.current === null) return;
    drag.current = null;
    setPreferences({});
  };
  return (
    // biome-ignore lint/a11y/useSemanticElements: an <hr> cannot be moved
    <div
      className="sidebar-edge"
      role="separator"
      aria-orientation="vertical"
      aria-label="Width of the list"
      aria-valuenow={width}
      aria-valuemin={MIN_WIDTH}
      aria-valuemax={MAX_WIDTH}
      tabIndex={0}
      onPointerDown={begin}
      onPointerMove={move}
      onPointerUp={end}
      onPointerCancel={end}
      onDoubleClick={() => setPreferences({ sidebarWidth: DEFAULT_WIDTH })}
      onKeyDown={(event) => moveByKey(event, width)}
    />
  );
}

function moveByKey(event: KeyboardEvent, width: number): void {
  const to = {
    ArrowLeft: width - STEP,
    ArrowRight: width + STEP,
    Home: MIN_WIDTH,
    End: MAX_WIDTH,
  }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  setPreferences({ sidebarWidth: clamped(to) });
}
