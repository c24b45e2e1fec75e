/** What looks again when the window has another size, each while it is on the page. */

import { whenIdle, whenNear } from "./near";

const all = new Set<() => void>();
let listening = false;

/** Calls back after each change: of what is not laid out, once it is near. Gives what stops that. */
export function whenResized(element: HTMLElement, look: () => void): () => void {
  let stop = () => {};
  const again = () => {
    stop();
    if (element.checkVisibility({ contentVisibilityAuto: true })) look();
    else stop = whenNear(element, look);
  };
  listen();
  all.add(again);
  return () => {
    all.delete(again);
    stop();
  };
}

/** Once for all of them. */
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
