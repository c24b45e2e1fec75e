/** The box of the composer: text field, attachments and buttons. Its owner decides how to send. */

import { Paperclip, TriangleAlert } from "lucide-react";
import {
  type KeyboardEvent,
  type ReactNode,
  type RefObject,
  useEffect,
  useMemo,
  useRef,
} from "react";
import { useStore } from "../reactive/store";
import { IconButton } from "../ui/button";
import "./composer.css";
import { invisibleWarning } from "../ui/invisible";
import { AttachmentTiles } from "./attachment-tiles";
import type { Draft } from "./draft";
import { DropZone } from "./drop-zone";
import { type Popup, TextField } from "./text-field";

interface Props {
  readonly draft: Draft;
  readonly label: string;
  readonly placeholder: string;
  readonly field: RefObject<HTMLTextAreaElement | null>;
  readonly onKeyDown: (event: KeyboardEvent<HTMLTextAreaElement>) => void;
  readonly popup?: Popup | null;
  /** Above the text. */
  readonly above?: ReactNode;
  /** Below it, at the left and at the right. */
  readonly left?: ReactNode;
  readonly right: ReactNode;
}

/** Text field, attachments and buttons, used for new chats, messages and edits. */
export function ComposerBox({ draft, field, above, left, right, ...rest }: Props) {
  useEffect(() => draft.follow(), [draft]);
  return (
    <div className="composer-box">
      {above}
      <AttachmentTiles draft={draft} />
      <TextField draft={draft} field={field} {...rest} />
      <InvisibleWarning draft={draft} />
      <div className="composer-row">
        <Attach draft={draft} />
        {left}
        <span className="composer-gap" />
        {right}
      </div>
      <DropZone
        onFiles={(files) => {
          draft.add(files);
          field.current?.focus();
        }}
      />
    </div>
  );
}

function Attach({ draft }: { readonly draft: Draft }) {
  const input = useRef<HTMLInputElement>(null);
  return (
    <>
      <IconButton label="Attach files" onClick={() => input.current?.click()}>
        <Paperclip size={16} />
      </IconButton>
      <input
        ref={input}
        type="file"
        multiple
        hidden
        aria-label="Files to attach"
        onChange={(event) => {
          draft.add([...(event.target.files ?? [])]);
          // So that the same file can be chosen again.
          event.target.value = "";
        }}
      />
    </>
  );
}

/** Warns of invisible characters: the text is sent as it is. */
function InvisibleWarning({ draft }: { readonly draft: Draft }) {
  const { text, files } = useStore(draft.content);
  const words = useMemo(
    () => invisibleWarning([text, ...files.map((file) => file.text ?? "")].join("\n")),
    [text, files],
  );
  return (
    <div role="status">
      {words !== null && (
        <p className="composer-warning">
          <TriangleAlert size={14} aria-hidden="true" />
          {words}
        </p>
      )}
    </div>
  );
}
