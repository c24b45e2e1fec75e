/** Short words about something that was just done or refused, for people and screen readers. */

import { X } from "lucide-react";
import { Problem } from "../api/problem";
import { Store, useStore } from "../state/store";
import { IconButton } from "./button";

interface Notice {
  readonly id: number;
  readonly text: string;
  readonly bad: boolean;
  /** Something that can be done about it, while it is shown. */
  readonly way?: Way;
}

export interface Way {
  readonly name: string;
  readonly onChoose: () => void;
}

const notices = new Store<readonly Notice[]>([]);
const LONG = 6_000;
let last = 0;

export function notify(text: string, bad = false, way?: Way): void {
  last += 1;
  const id = last;
  const notice = { id, text, bad, ...(way === undefined ? {} : { way }) };
  notices.change((all) => [...all.slice(-2), notice]);
  // What went wrong stays until it is read.
  if (!bad) setTimeout(() => dismiss(id), LONG);
}

function dismiss(id: number): void {
  notices.change((all) => all.filter((each) => each.id !== id));
}

/** Do something, and say so when it cannot be done. */
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
      {useStore(notices).map(({ id, text, bad, way }) => (
        <div key={id} className="notice" data-bad={bad || undefined}>
          <span>{text}</span>
          {way && (
            <button
              type="button"
              className="notice-way"
              onClick={() => {
                dismiss(id);
                way.onChoose();
              }}
            >
              {way.name}
            </button>
          )}
          <IconButton label="Dismiss" small onClick={() => dismiss(id)}>
            <X size={14} />
          </IconButton>
        </div>
      ))}
    </div>
  );
}
