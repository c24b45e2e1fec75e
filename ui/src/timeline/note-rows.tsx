/** Rows that are neither prompt nor answer: summaries and notes. */

import { memo, type ReactNode, useState } from "react";
import type { Stored } from "../api/types";
import { messageText } from "../store/message-text";
import { count } from "../ui/format";
import { Collapsible } from "./collapsible";
import { Icon } from "./icon";

export const CheckpointRow = memo(function CheckpointRow({ stored }: { readonly stored: Stored }) {
  const { checkpoint, parts } = stored.message;
  return (
    <Summary
      icon={<Icon name="fold-vertical" size={15} />}
      words={summaryTitle(checkpoint ?? null)}
      text={messageText(parts)}
    />
  );
});

type Checkpoint = Stored["message"]["checkpoint"];

/** Title of a summary. The earlier messages stay visible, and are no longer sent to the model. */
export function summaryTitle(checkpoint: Checkpoint | null): string {
  if (checkpoint == null) return "Summarized the earlier conversation";
  const { covers, before, after, summarized: isSummary = true } = checkpoint;
  const tokens = `${count(before)} → ${count(after)} tokens`;
  if (!isSummary) return `Removed long results, ${tokens}`;
  return `Summarized ${covers === 1 ? "1 message" : `${covers} messages`}, ${tokens}`;
}

/** A summary while it is being written. */
export function Summarizing({ text }: { readonly text: string }) {
  return <Summary icon={<span className="spinner" />} words="Summarizing…" text={text} growing />;
}

interface SummaryProps {
  readonly icon: ReactNode;
  readonly words: string;
  readonly text: string;
  readonly growing?: boolean;
}

function Summary({ growing = false, ...shown }: SummaryProps) {
  const [isOpen, setOpen] = useState(false);
  const state = { growing, isOpen, onToggle: setOpen };
  return <Collapsible className="checkpoint" label="Summary" {...shown} {...state} />;
}

const REASON_LEADS: Readonly<Record<string, string>> = {
  recovery: "The answer was cut off and must continue:",
  repair: "The answer did not match the required format:",
  guard: "The agent was asked to continue:",
};

const KIND_LEADS: Readonly<Record<string, string>> = {
  context: "Context for the agent:",
  marker: "Note to the agent:",
  injected: "Note to the agent:",
};

export const NoteRow = memo(function NoteRow({ stored }: { readonly stored: Stored }) {
  const { why, kind, parts } = stored.message;
  const lead = (why && REASON_LEADS[why]) || KIND_LEADS[kind] || "";
  return (
    <Note lead={lead} icon={<Icon name="info" size={14} />}>
      {messageText(parts)}
    </Note>
  );
});

interface NoteProps {
  readonly lead?: string;
  readonly icon: ReactNode;
  readonly look?: "warn";
  readonly children: ReactNode;
}

export function Note({ lead, icon, look, children }: NoteProps) {
  return (
    <div className="note" role="note" data-look={look}>
      <span className="call-icon" aria-hidden>
        {icon}
      </span>
      <span>
        {lead && <span className="note-lead">{lead} </span>}
        {children}
      </span>
    </div>
  );
}
