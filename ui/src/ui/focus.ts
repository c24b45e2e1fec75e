/** Hooks that keep the keyboard focus when its element disappears. */

import { type RefObject, useLayoutEffect, useRef } from "react";
import { isCoarse } from "./media-query";

/**
 * Moves the focus when the element that has it is removed: keyboard users would otherwise start
 * again at the top of the page. `next` is called before the removal; if it returns nothing, the
 * focus goes to what the selector `otherwise` finds.
 */
export function useFocusFallback(
  ref: RefObject<HTMLElement | null>,
  next: (removed: HTMLElement) => HTMLElement | null | undefined,
  otherwise = ".composer-field",
): void {
  // biome-ignore lint/correctness/useExhaustiveDependencies: only when it goes
  useLayoutEffect(() => {
    const element = ref.current;
    if (element === null) return;
    // A button that is disabled while it has the focus loses it to no element and fires no event.
    let wasInside = element.contains(document.activeElement);
    const onFocusIn = (event: FocusEvent) => {
      wasInside = element.contains(event.target as Node);
    };
    document.addEventListener("focusin", onFocusIn);
    return () => {
      document.removeEventListener("focusin", onFocusIn);
      if (wasInside) moveFocus(next(element) ?? null, otherwise);
    };
  }, []);
}

function moveFocus(to: HTMLElement | null, otherwise: string): void {
  requestAnimationFrame(() => {
    if (document.activeElement !== document.body) return;
    if (to?.isConnected) to.focus();
    // On touch screens a focused field would open the keyboard.
    else if (!isCoarse()) document.querySelector<HTMLElement>(otherwise)?.focus();
  });
}

/** Returns the focus of a closed popup to its opener, unless the user has moved on. */
export function returnFocus(to: HTMLElement | null | undefined): void {
  const now = document.activeElement;
  const isFree = now === null || now === document.body || now.closest("[popover]") !== null;
  if (isFree) to?.focus();
}

/** When a form and its opener replace each other, focuses the new one. */
export function useFocusOnSwap<T extends HTMLElement>(what: string): RefObject<T | null> {
  const container = useRef<T>(null);
  const before = useRef(what);
  useLayoutEffect(() => {
    if (before.current === what) return;
    before.current = what;
    returnFocus(container.current?.querySelector<HTMLElement>("input, button"));
  }, [what]);
  return container;
}
