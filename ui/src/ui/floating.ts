/** Hook for a button and the element that floats beside it. */

import { type RefObject, useRef, useState } from "react";
import { returnFocus } from "./focus";

export interface Floating {
  readonly button: RefObject<HTMLButtonElement | null>;
  readonly isOpen: boolean;
  readonly toggle: () => void;
  readonly open: () => void;
  readonly close: () => void;
}

/** State of a button with a floating element. */
export function useFloating(): Floating {
  const button = useRef<HTMLButtonElement>(null);
  const [isOpen, setOpen] = useState(false);
  const close = () => {
    setOpen(false);
    returnFocus(button.current);
  };
  return { button, isOpen, toggle: () => setOpen(!isOpen), open: () => setOpen(true), close };
}
