/** Modal dialogs, on the browser's `<dialog>`. */

import { X } from "lucide-react";
import {
  type MouseEvent,
  type ReactNode,
  type SyntheticEvent,
  useId,
  useLayoutEffect,
  useRef,
} from "react";
import { IconButton } from "./button";

interface Props {
  readonly title: string;
  readonly onClose: () => void;
  readonly wide?: boolean;
  readonly children: ReactNode;
}

/** A native `<dialog>`: the browser traps and returns the focus, and closes it with Escape. */
export function Dialog({ title, onClose, wide, children }: Props) {
  const id = useId();
  return (
    <dialog
      {...useModal(onClose)}
      className="dialog"
      data-wide={wide || undefined}
      aria-labelledby={id}
    >
      <div>
        <h2 id={id}>{title}</h2>
        {children}
        <span className="dialog-close">
          <IconButton label="Close" small onClick={onClose}>
            <X size={16} />
          </IconButton>
        </span>
      </div>
    </dialog>
  );
}

/** Props for a `<dialog>` that is open as long as it is mounted. */
export function useModal(onClose: () => void) {
  const ref = useRef<HTMLDialogElement>(null);
  // A text selection may end outside the dialog: that is not a click on the backdrop.
  const isBeside = useRef(false);
  // Closed before it is removed: only then does the browser return the focus.
  useLayoutEffect(() => {
    const element = ref.current;
    if (element !== null && !element.open) element.showModal();
    return () => element?.close();
  }, []);
  return {
    ref,
    onCancel: (event: SyntheticEvent) => {
      event.preventDefault();
      onClose();
    },
    onPointerDown: (event: MouseEvent) => {
      isBeside.current = event.target === ref.current;
    },
    onClick: (event: MouseEvent) => {
      if (isBeside.current && event.target === ref.current) onClose();
    },
  };
}
