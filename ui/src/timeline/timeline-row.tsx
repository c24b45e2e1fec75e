/** A row of the timeline, by kind. */

import { memo } from "react";
import type { OpenChat } from "../store/open-chat";
import type { Row } from "../store/rows";
import { AnswerRow } from "./answer-row";
import { CheckpointRow, NoteRow } from "./note-rows";
import { PromptRow } from "./prompt-row";

interface Props {
  readonly chat: OpenChat;
  readonly row: Row;
  readonly modelBefore: string | null;
  /** During an edit: the edited message, or one that would be superseded. */
  readonly place: "" | "edited" | "gone";
}

const NAMES: Readonly<Record<Row["kind"], string>> = {
  prompt: "Your message",
  answer: "Answer",
  checkpoint: "Summary",
  note: "Note",
};

/** A row. A row being written and its later message share the element. */
export const TimelineRow = memo(function RowView({ chat, row, modelBefore, place }: Props) {
  return (
    <article
      className="timeline-row"
      data-row={row.key}
      data-kind={row.kind}
      data-live={row.stored === null || undefined}
      data-place={place || undefined}
      inert={place === "gone"}
      aria-label={NAMES[row.kind]}
    >
      <Content chat={chat} row={row} modelBefore={modelBefore} />
    </article>
  );
});

function Content({ chat, row, modelBefore }: Omit<Props, "place">) {
  switch (row.kind) {
    case "prompt":
      return <PromptRow chat={chat} stored={row.stored} />;
    case "answer":
      return <AnswerRow chat={chat} row={row} modelBefore={modelBefore} />;
    case "checkpoint":
      return <CheckpointRow stored={row.stored} />;
    case "note":
      return <NoteRow stored={row.stored} />;
  }
}
