/** Calls back when the window was resized, for elements that are on the page. */

import { whenIdle, whenVisible } from "./when-visible";

const all = new Set<() => void>();
let listening = false;

/** Calls back after each resize; when hidden, once it comes near. Returns a stop function. */
export function onResize(element: HTMLElement, look: () => void): () => void {
  let stop = () => {};
  const again = () => {
    stop();
    if (element.checkVisibility({ contentVisibilityAuto: true })) look();
    else stop = whenVisible(element, look);
  };
  listen();
  all.add(again);
  return () => {
    all.delete(again);
    stop();
  };
}

/** Installs the one listener for all elements. */
function listen(): void {
  if (listening) return;
  listening = true;
  let stop = () => {};
  addEventListener("resize", () => {
    stop();
    stop = whenIdle(() => {
      for (const again of all) again();
    });
  });
}
