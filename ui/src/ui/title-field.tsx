/** The text field for a chat's title: leaving it saves, Escape cancels. */

import { useEffect, useRef } from "react";
import { useFocusFallback } from "./focus";

interface Props {
  readonly label: string;
  readonly className: string;
  readonly title: string;
  /** The name shown while the chat has no title. */
  readonly name: string;
  /** Called with the new title; null removes it. */
  readonly onSave: (title: string | null) => void;
  readonly onDone: () => void;
}

const MAX_LENGTH = 200;

/** An editable title. Blur and Enter save it; Escape cancels. */
export function TitleField({ label, className, title, name, onSave, onDone }: Props) {
  const field = useRef<HTMLInputElement>(null);
  const isClosed = useRef(false);
  useEffect(() => {
    field.current?.focus();
    field.current?.select();
  }, []);
  // By default the focus would move to the composer, which is wrong after a rename.
  useFocusFallback(field, () => null);
  const end = (saves: boolean) => {
    if (isClosed.current) return; // the blur that follows Enter or Escape
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
        // Keys of an input method are not commands.
        if (event.nativeEvent.isComposing) return;
        if (event.key === "Enter") end(true);
        if (event.key !== "Escape") return;
        event.stopPropagation();
        end(false);
      }}
    />
  );
}
