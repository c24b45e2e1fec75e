/** Navigation after a slow operation: at once, or offered as a notice if the user moved on. */

import { navigate } from "wouter/use-browser-location";
import { notify } from "./notices";

/**
 * For what takes a while and is to be shown when it is there: asked from here, it goes there. To
 * somebody who has gone elsewhere by then it is offered.
 */
export function deferredNavigation(): (to: string, said: string) => void {
  const here = location.pathname;
  return (to, notice) => {
    if (location.pathname === here) navigate(to);
    else notify(notice, false, { name: "Open it", onChoose: () => navigate(to) });
  };
}
