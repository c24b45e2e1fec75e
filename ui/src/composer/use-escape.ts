/** Hook for Escape anywhere on the page, unless it closes a dialog or leaves another field. */

import { useEffect } from "react";
import { isTyping } from "../shortcuts";

/** Escape, wherever it is pressed, unless it closes something or leaves another field. */
export function useEscape(onEscape: () => void): void {
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (event.key !== "Escape" || event.defaultPrevented || event.isComposing) return;
      if (document.querySelector("dialog[open], :popover-open") !== null) return;
      if (isTyping(event.target) && !isInComposer(event.target)) return;
      onEscape();
    };
    document.addEventListener("keydown", press);
    return () => document.removeEventListener("keydown", press);
  }, [onEscape]);
}

function isInComposer(target: EventTarget | null): boolean {
  return target instanceof Element && target.closest(".composer") !== null;
}
