/** Rows that neither the person nor the model said. */

import { memo, type ReactNode, useState } from "react";
import type { Stored } from "../api/types";
import { count } from "../parts/words";
import { saidIn } from "../store/said";
import { Fold } from "./fold";
import { Icon } from "./icon";

export const CheckpointRow = memo(function CheckpointRow({ stored }: { readonly stored: Stored }) {
  const { checkpoint, parts } = stored.message;
  return (
    <Summary
      icon={<Icon name="fold-vertical" size={15} />}
      words={summarized(checkpoint ?? null)}
      text={saidIn(parts)}
    />
  );
});

type Checkpoint = Stored["message"]["checkpoint"];

/** What came before is still here for people, and no longer sent to the model. */
export function summarized(checkpoint: Checkpoint | null): string {
  if (checkpoint == null) return "Summarized what came before";
  const { covers, before, after, summarized: isSummary = true } = checkpoint;
  const tokens = `${count(before)} → ${count(after)} tokens`;
  if (!isSummary) return `Left out long results, ${tokens}`;
  return `Summarized ${covers === 1 ? "1 message" : `${covers} messages`}, ${tokens}`;
}

/** While it is being written. */
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
  return <Fold className="checkpoint" label="Summary" {...shown} {...state} />;
}

const WHY: Readonly<Record<string, string>> = {
  recovery: "The answer was cut, and is to go on:",
  repair: "The answer did not have the form that was asked for:",
  guard: "The agent was told to go on:",
};

const KINDS: Readonly<Record<string, string>> = {
  context: "Told to the agent about its surroundings:",
  marker: "Told to the agent:",
  injected: "Told to the agent:",
};

export const NoteRow = memo(function NoteRow({ stored }: { readonly stored: Stored }) {
  const { why, kind, parts } = stored.message;
  const lead = (why && WHY[why]) || KINDS[kind] || "";
  return (
    <Note lead={lead} icon={<Icon name="info" size={14} />}>
      {saidIn(parts)}
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
