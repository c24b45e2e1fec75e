/** The title of a chat, editable in place. */

import { TitleField } from "../ui/title-field";

interface Props {
  readonly title: string | null;
  /** What it is called while it has none. */
  readonly name: string;
  readonly editable: boolean;
  readonly renaming: boolean;
  readonly onRename: (renaming: boolean) => void;
  readonly onSave: (title: string | null) => void;
}

/** The title, which becomes a field where it stands. */
export function EditableTitle({ title, name, editable, renaming, onRename, onSave }: Props) {
  if (renaming) {
    return (
      <TitleField
        label="Title of the chat"
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
