/** The text field for a chat's title: leaving it saves, Escape cancels. */

import { useEffect, useRef } from "react";
import { useFocusHandedOn } from "./focus";

interface Props {
  readonly label: string;
  readonly className: string;
  readonly title: string;
  /** What it is called while it has none. */
  readonly name: string;
  /** With another one; null takes it away. */
  readonly onSave: (title: string | null) => void;
  readonly onDone: () => void;
}

const LONGEST = 200;

/** The title of a chat, to be written. Leaving saves, as people expect; Escape leaves it as it was. */
export function TitleField({ label, className, title, name, onSave, onDone }: Props) {
  const field = useRef<HTMLInputElement>(null);
  const isLeft = useRef(false);
  useEffect(() => {
    field.current?.focus();
    field.current?.select();
  }, []);
  // The composer takes it by default: a title is not a place for the focus.
  useFocusHandedOn(field, () => null);
  const end = (keeps: boolean) => {
    if (isLeft.current) return; // losing the focus is a consequence, not a wish of its own
    isLeft.current = true;
    const now = field.current?.value.trim() ?? "";
    if (keeps && now !== title) onSave(now === "" ? null : now);
    onDone();
  };
  return (
    <input
      ref={field}
      className={className}
      aria-label={label}
      maxLength={LONGEST}
      defaultValue={title}
      placeholder={name}
      onBlur={() => end(true)}
      onKeyDown={(event) => {
        // What an input method does with a key is its own affair.
        if (event.nativeEvent.isComposing) return;
        if (event.key === "Enter") end(true);
        if (event.key !== "Escape") return;
        event.stopPropagation();
        end(false);
      }}
    />
  );
}
