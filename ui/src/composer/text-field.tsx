/** The growing text field of the composer, with paste and key handling. */

import {
  type ClipboardEvent,
  type KeyboardEvent,
  type RefObject,
  useLayoutEffect,
  useRef,
} from "react";
import { useStore } from "../reactive/store";
import type { Draft } from "./draft";
import { pasteAction } from "./paste";

/** A listbox controlled by the field, and its active option. */
export interface Popup {
  readonly id: string;
  readonly active: string | undefined;
}

interface Props {
  readonly draft: Draft;
  readonly label: string;
  readonly placeholder: string;
  readonly onKeyDown: (event: KeyboardEvent<HTMLTextAreaElement>) => void;
  readonly popup?: Popup | null;
  readonly field: RefObject<HTMLTextAreaElement | null>;
}

/** A text field that grows with its text. */
export function TextField({ draft, label, placeholder, onKeyDown, popup, field }: Props) {
  const text = useStore(draft.content, (content) => content.text);
  const paste = usePaste(draft);
  useLayoutEffect(() => {
    const element = field.current;
    if (element === null) return;
    element.style.height = "auto";
    // Measured for each text. The style sheet limits the height.
    element.style.height = text === "" ? "" : `${element.scrollHeight}px`;
  }, [text, field]);
  return (
    <textarea
      ref={field}
      className="composer-field"
      rows={1}
      dir="auto"
      value={text}
      aria-label={label}
      placeholder={placeholder}
      aria-autocomplete={popup === undefined ? undefined : "list"}
      aria-controls={popup?.id}
      aria-activedescendant={popup?.active}
      enterKeyHint="enter"
      onChange={(event) => draft.type(event.target.value)}
      onPaste={paste.onPaste}
      onKeyDown={(event) => {
        paste.onKeyDown(event);
        // Keys of an input method are not commands.
        if (!event.nativeEvent.isComposing && event.keyCode !== 229) onKeyDown(event);
      }}
    />
  );
}

function usePaste(draft: Draft) {
  // A paste event does not say which keys were held.
  const asText = useRef(false);
  return {
    onKeyDown: (event: KeyboardEvent) => {
      const holds = event.ctrlKey || event.metaKey;
      asText.current = holds && event.shiftKey && event.key.toLowerCase() === "v";
    },
    onPaste: (event: ClipboardEvent) => {
      const text = event.clipboardData.getData("text/plain");
      const files = [...event.clipboardData.files];
      const what = pasteAction(text, files.length, asText.current);
      asText.current = false;
      if (what === "inline") return;
      event.preventDefault();
      if (what === "files") draft.add(files);
      else draft.addText(text);
    },
  };
}
