/** What the model thought before it answered. */

import { memo, useId, useRef, useState } from "react";
import type { Reasoning } from "../api/types";
import { useStore } from "../state/store";
import { preferences } from "../store/preferences";
import { Icon } from "./icon";
import { Markdown } from "./markdown";
import { Scroller } from "./scroller";

interface Props {
  readonly reasoning: Reasoning;
  readonly growing: boolean;
}

export const ReasoningView = memo(function ReasoningView({ reasoning, growing }: Props) {
  const { reasoning: preferred } = useStore(preferences);
  const [chosen, choose] = useState<boolean | null>(null);
  const seconds = useSeconds(reasoning, growing);
  const id = useId();
  // Some providers tell only that there was something.
  if (reasoning.text.trim() === "" && !growing && seconds === null) return null;
  const isOpen = chosen ?? (preferred === "auto" ? growing : preferred === "open");
  const words = growing ? "Thinking…" : thought(seconds);
  return (
    <div className="reasoning" data-growing={growing || undefined}>
      <button
        type="button"
        className="call-line"
        aria-expanded={isOpen}
        aria-controls={id}
        onClick={() => choose(!isOpen)}
      >
        <span className="call-icon" aria-hidden>
          <Icon name="brain" size={15} />
        </span>
        <span className="call-label">{words}</span>
        <Icon name="chevron-right" size={14} />
      </button>
      <div id={id} className="reasoning-body" hidden={!isOpen}>
        {isOpen && (
          <Scroller className="reasoning-text" label="Thoughts" follow={growing}>
            <Markdown text={reasoning.text} growing={growing} />
          </Scroller>
        )}
      </div>
    </div>
  );
});

export function thought(seconds: number | null): string {
  if (seconds === null) return "Thought";
  const whole = Math.max(1, Math.round(seconds));
  if (whole < 60) return `Thought for ${whole} s`;
  return `Thought for ${Math.floor(whole / 60)} min ${whole % 60} s`;
}

/** As the worker wrote it down; until then by this page's clock, if it saw the beginning. */
function useSeconds({ started_at, finished_at }: Reasoning, growing: boolean): number | null {
  const began = useRef<number | null>(null);
  const took = useRef<number | null>(null);
  if (growing) began.current ??= Date.now();
  else if (began.current !== null) took.current ??= (Date.now() - began.current) / 1_000;
  if (took.current !== null) return took.current;
  if (started_at == null || finished_at == null) return null;
  return (finished_at - started_at) / 1_000_000;
}
