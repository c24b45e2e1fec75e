/** Navigation after a slow operation: at once, or offered as a notice if the user moved on. */

import { navigate } from "wouter/use-browser-location";
import { notify } from "./notices";

/**
 * A function that navigates to the result of a slow operation. If the user has left the page that
 * started it, the function shows a notice with a link instead.
 */
export function deferredNavigation(): (to: string, notice: string) => void {
  const here = location.pathname;
  return (to, notice) => {
    if (location.pathname === here) navigate(to);
    else notify(notice, false, { name: "Open it", onChoose: () => navigate(to) });
  };
}
