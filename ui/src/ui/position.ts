/** Position of a floating element: below its button, or above when there is no room. */

export type Anchor = HTMLElement | { readonly x: number; readonly y: number };

const MARGIN = 8;
const GAP = 4;

export function placeBeside(floating: HTMLElement, at: Anchor): void {
  const from =
    at instanceof HTMLElement ? at.getBoundingClientRect() : new DOMRect(at.x, at.y, 0, 0);
  const { width, height } = floating.getBoundingClientRect();
  const below = from.bottom + GAP;
  const fits = below + height + MARGIN <= innerHeight;
  const top = fits ? below : Math.max(MARGIN, from.top - GAP - height);
  // If there is no room to the right, its right edge is aligned with the opener's.
  const room = innerWidth - MARGIN - width;
  const left = from.left <= room ? from.left : Math.min(from.right - width, room);
  floating.style.top = `${top}px`;
  floating.style.left = `${Math.max(MARGIN, left)}px`;
}
