/** The line of a tool call, which expands to its body. */

import { type ReactNode, useId, useRef, useState } from "react";
import { useStore } from "../../reactive/store";
import { preferences } from "../../store/preferences";
import { useNow } from "../../ui/clock";
import { duration } from "../../ui/format";
import { Icon } from "../icon";
import type { Label } from "./call-label";
import { isBad, STATE_LABELS, STATE_MEANINGS, type State } from "./call-state";

interface Props {
  readonly icon: ReactNode;
  readonly label: Label;
  readonly state: State;
  /** Start time, by this page's clock. */
  readonly since?: number | null;
  readonly seconds?: number | null;
  /** After the label: counts. */
  readonly aside?: ReactNode;
  /** How it failed, shown instead of the state. */
  readonly failure?: string | null;
  readonly tool: string;
  readonly quiet?: boolean;
  /** Whether it is open by default. */
  readonly opens: boolean;
  /** It cannot be closed: it needs a person. */
  readonly stays?: boolean;
  /** Rendered only while it is open. */
  readonly children: () => ReactNode;
}

export function CallLine(props: Props) {
  const { icon, label, state, aside, tool, quiet, opens, stays = false } = props;
  const [isOpen, toggle] = useOpen(opens, stays);
  const id = useId();
  return (
    <div className="call" data-state={state} data-tool={tool} data-quiet={quiet || undefined}>
      <button
        type="button"
        className="call-line"
        aria-expanded={isOpen}
        aria-controls={id}
        onClick={toggle}
      >
        <span className="call-icon" aria-hidden>
          {icon}
        </span>
        <LabelView label={label} />
        {aside}
        <StateView {...props} />
        <Icon name="chevron-right" size={14} />
      </button>
      <div id={id} className="call-body" hidden={!isOpen}>
        {isOpen && props.children()}
      </div>
    </div>
  );
}

/** Whether the line is open. The user's choice wins; a line that opened by itself stays open. */
export function useOpen(opens: boolean, stays: boolean): [boolean, () => void] {
  const { output } = useStore(preferences);
  const [chosen, choose] = useState<boolean | null>(null);
  const wasOpen = useRef(false);
  if (opens) wasOpen.current = true;
  const byDefault = output === "auto" ? wasOpen.current : output === "open";
  const isOpen = stays || (chosen ?? byDefault);
  return [isOpen, () => choose(!isOpen)];
}

function LabelView({ label }: { readonly label: Label }) {
  return (
    <span className="call-label">
      {label.verb}
      {label.object && (
        <> {label.isCode ? <code>{label.object}</code> : <span>{label.object}</span>}</>
      )}
    </span>
  );
}

const ICONS: Readonly<Record<State, ReactNode>> = {
  writing: <span className="spinner" />,
  waiting: <Icon name="hand" size={13} />,
  starting: <Icon name="hourglass" size={13} />,
  running: <span className="spinner" />,
  done: <Icon name="check" size={13} />,
  failed: <Icon name="circle-x" size={13} />,
  refused: <Icon name="ban" size={13} />,
  interrupted: <Icon name="square" size={12} />,
  lost: <Icon name="circle-question-mark" size={13} />,
  skipped: <Icon name="circle-slash" size={13} />,
  timed_out: <Icon name="timer-off" size={13} />,
  dropped: <Icon name="circle-slash" size={13} />,
};

function StateView({
  state,
  since = null,
  seconds = null,
  failure: ended = null,
  stays = false,
}: Props) {
  const hasFailure = ended !== null;
  return (
    <span
      className="call-state"
      data-bad={isBad(state) || undefined}
      data-ended={hasFailure || undefined}
      title={STATE_MEANINGS[state]}
    >
      {hasFailure ? <Icon name="circle-alert" size={13} /> : ICONS[state]}
      {/* The card below shows it. */}
      <span className={stays ? "hidden-text" : undefined}>{ended ?? STATE_LABELS[state]}</span>
      {state === "running" && since !== null && <Elapsed since={since} />}
      {seconds !== null && state !== "running" && <span>{duration(seconds)}</span>}
    </span>
  );
}

function Elapsed({ since }: { readonly since: number }) {
  const now = useNow(1_000);
  const seconds = Math.max(0, Math.floor((now - since) / 1_000));
  return <span>{seconds < 1 ? "" : duration(seconds)}</span>;
}
