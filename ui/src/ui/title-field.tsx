/** The text field for a chat's title: leaving it saves, Escape cancels. */

import { useEffect, useRef } from "react";
import { useFocusFallback } from "./focus";

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

const MAX_LENGTH = 200;

/** The title of a chat, to be written. Leaving saves, as people expect; Escape leaves it as it was. */
export function TitleField({ label, className, title, name, onSave, onDone }: Props) {
  const field = useRef<HTMLInputElement>(null);
  const isClosed = useRef(false);
  useEffect(() => {
    field.current?.focus();
    field.current?.select();
  }, []);
  // The composer takes it by default: a title is not a place for the focus.
  useFocusFallback(field, () => null);
  const end = (saves: boolean) => {
    if (isClosed.current) return; // losing the focus is a consequence, not a wish of its own
    isClosed.current = true;
    const now = field.current?.value.trim() ?? "";
    if (saves && now !== title) onSave(now === "" ? null : now);
    onDone();
  };
  return (
    <input
      ref={field}
      className={className}
      aria-label={label}
      maxLength={MAX_LENGTH}
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
