/** The handle that resizes the sidebar. */

import { type KeyboardEvent, type PointerEvent, useRef } from "react";
import { useStore } from "../reactive/store";
import { prefer, preferences } from "../store/preferences";

export const NARROWEST = 200;
export const WIDEST = 420;
const USUAL = 272;
const STEP = 16;

export function clamped(width: number): number {
  return Math.round(Math.min(WIDEST, Math.max(NARROWEST, width)));
}

/** Where the list ends: dragged, or moved by arrow keys. Twice clicked, it is as at first. */
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
    // Kept when it is let go, not with each pixel.
    preferences.change((now) => ({ ...now, sidebarWidth }));
  };
  const end = () => {
    if (drag.current === null) return;
    drag.current = null;
    prefer({});
  };
  return (
    // biome-ignore lint/a11y/useSemanticElements: an <hr> cannot be moved
    <div
      className="sidebar-edge"
      role="separator"
      aria-orientation="vertical"
      aria-label="Width of the list"
      aria-valuenow={width}
      aria-valuemin={NARROWEST}
      aria-valuemax={WIDEST}
      tabIndex={0}
      onPointerDown={begin}
      onPointerMove={move}
      onPointerUp={end}
      onPointerCancel={end}
      onDoubleClick={() => prefer({ sidebarWidth: USUAL })}
      onKeyDown={(event) => moveByKey(event, width)}
    />
  );
}

function moveByKey(event: KeyboardEvent, width: number): void {
  const to = {
    ArrowLeft: width - STEP,
    ArrowRight: width + STEP,
    Home: NARROWEST,
    End: WIDEST,
  }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  prefer({ sidebarWidth: clamped(to) });
}
