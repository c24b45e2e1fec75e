/** A popover with a small form. */

import { type ReactNode, useLayoutEffect, useRef } from "react";
import { returnFocus } from "./focus";
import { type Anchor, placeBeside } from "./position";

interface Props {
  readonly at: Anchor;
  readonly label: string;
  readonly onClose: () => void;
  readonly children: ReactNode;
}

/** A small form beside its opener. It closes with Escape or a click outside. */
export function Popover({ at, label, onClose, children }: Props) {
  const popover = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const element = popover.current;
    if (element === null) return;
    if (!element.matches(":popover-open")) element.showPopover();
    placeBeside(element, at);
    element.querySelector<HTMLElement>("input:checked, input, button, select")?.focus();
  }, [at]);
  return (
    <div
      ref={popover}
      className="floating"
      role="dialog"
      aria-label={label}
      popover="auto"
      onToggle={(event) => {
        if (event.newState !== "closed") return;
        onClose();
        if (at instanceof HTMLElement) returnFocus(at);
      }}
    >
      {children}
    </div>
  );
}
