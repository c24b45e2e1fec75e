/** Notices: short messages about what was done or refused, also for screen readers. */

import { X } from "lucide-react";
import { type FocusEvent, type RefObject, useEffect, useRef, useState } from "react";
import { Problem } from "../api/problem";
import { Store, useStore } from "../reactive/store";
import { IconButton } from "./button";
import { useFocusFallback } from "./focus";

interface Notice {
  readonly id: number;
  readonly text: string;
  /** An error stays until it is dismissed. */
  readonly isError: boolean;
  /** A button in the notice, such as "Undo". */
  readonly action?: NoticeAction;
}

export interface NoticeAction {
  readonly name: string;
  readonly onChoose: () => void;
}

const notices = new Store<readonly Notice[]>([]);
/** How long a notice is shown, without pointer or focus on it. */
const SHOWN_FOR = 6_000;
let last = 0;

export function notify(text: string, isError = false, action?: NoticeAction): void {
  last += 1;
  const notice = { id: last, text, isError, ...(action === undefined ? {} : { action }) };
  notices.change((all) => [...all.slice(-2), notice]);
}

function dismiss(id: number): void {
  notices.change((all) => all.filter((each) => each.id !== id));
}

/** Runs an operation, and notifies when it fails. */
export async function attempt(what: () => Promise<unknown>): Promise<boolean> {
  try {
    await what();
    return true;
  } catch (error) {
    notify(Problem.of(error).message, true);
    return false;
  }
}

export function Notices() {
  return (
    <div className="notices" role="status" aria-live="polite">
      {useStore(notices).map((notice) => (
        <NoticeView key={notice.id} notice={notice} />
      ))}
    </div>
  );
}

function NoticeView({ notice }: { readonly notice: Notice }) {
  const { id, text, isError, action } = notice;
  const box = useRef<HTMLDivElement>(null);
  const [isPointedAt, setPointedAt] = useState(false);
  const { isFocused, handlers } = useFocusInside(box);
  const stays = isError || isPointedAt || isFocused;
  useEffect(() => {
    if (stays) return;
    const timer = setTimeout(() => dismiss(id), SHOWN_FOR);
    return () => clearTimeout(timer);
  }, [id, stays]);
  return (
    <div
      ref={box}
      className="notice"
      data-bad={isError || undefined}
      onPointerEnter={() => setPointedAt(true)}
      onPointerLeave={() => setPointedAt(false)}
      {...handlers}
    >
      <span>{text}</span>
      {action && (
        <button
          type="button"
          className="notice-action"
          onClick={() => {
            dismiss(id);
            action.onChoose();
          }}
        >
          {action.name}
        </button>
      )}
      <IconButton label="Dismiss" small onClick={() => dismiss(id)}>
        <X size={14} />
      </IconButton>
    </div>
  );
}

/** Whether the focus is inside. When the element is removed, the focus returns. */
function useFocusInside(box: RefObject<HTMLElement | null>) {
  const [isFocused, setFocused] = useState(false);
  const before = useRef<HTMLElement | null>(null);
  useFocusFallback(box, () => before.current);
  const handlers = {
    onFocus({ currentTarget, relatedTarget }: FocusEvent<HTMLElement>) {
      setFocused(true);
      if (currentTarget.contains(relatedTarget)) return;
      before.current = relatedTarget instanceof HTMLElement ? relatedTarget : null;
    },
    onBlur({ currentTarget, relatedTarget }: FocusEvent<HTMLElement>) {
      if (!currentTarget.contains(relatedTarget)) setFocused(false);
    },
  };
  return { isFocused, handlers };
}
