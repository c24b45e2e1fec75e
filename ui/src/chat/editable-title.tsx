/** The title of a chat, editable in place. */

import { TitleField } from "../ui/title-field";

interface Props {
  readonly title: string | null;
  /** The name shown while the chat has no title. */
  readonly name: string;
  readonly editable: boolean;
  readonly renaming: boolean;
  readonly onRename: (renaming: boolean) => void;
  readonly onSave: (title: string | null) => void;
}

/** The title of a chat, which turns into a field for editing. */
export function EditableTitle({ title, name, editable, renaming, onRename, onSave }: Props) {
  if (renaming) {
    return (
      <TitleField
        label="Chat title"
        className="field head-field"
        title={title ?? ""}
        name={name}
        onSave={onSave}
        onDone={() => onRename(false)}
      />
    );
  }
  return (
    <h1
      className="head-title"
      title={editable ? "Double-click to rename" : undefined}
      onDoubleClick={() => editable && onRename(true)}
    >
      {name}
    </h1>
  );
}
