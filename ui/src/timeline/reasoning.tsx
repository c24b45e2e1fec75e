/** The reasoning of the model, collapsible. */

import { memo, useRef, useState } from "react";
import type { Reasoning } from "../api/types";
import { useStore } from "../reactive/store";
import { preferences } from "../store/preferences";
import { Collapsible } from "./collapsible";
import { Icon } from "./icon";

interface Props {
  readonly reasoning: Reasoning;
  readonly growing: boolean;
}

export const ReasoningView = memo(function ReasoningView({ reasoning, growing }: Props) {
  const { reasoning: preferred } = useStore(preferences);
  const [chosen, choose] = useState<boolean | null>(null);
  const seconds = useSeconds(reasoning, growing);
  // Some providers do not send the text of the reasoning.
  if (reasoning.text.trim() === "" && !growing && seconds === null) return null;
  const isOpen = chosen ?? (preferred === "auto" ? growing : preferred === "open");
  return (
    <Collapsible
      className="reasoning"
      icon={<Icon name="brain" size={15} />}
      words={growing ? "Thinking…" : thoughtTitle(seconds)}
      label="Thoughts"
      text={reasoning.text}
      growing={growing}
      isOpen={isOpen}
      onToggle={choose}
    />
  );
});

export function thoughtTitle(seconds: number | null): string {
  if (seconds === null) return "Thought";
  const whole = Math.max(1, Math.round(seconds));
  if (whole < 60) return `Thought for ${whole} s`;
  return `Thought for ${Math.floor(whole / 60)} min ${whole % 60} s`;
}

/** Duration as stored; before that, by this page's clock if it saw the start. */
function useSeconds({ started_at, finished_at }: Reasoning, growing: boolean): number | null {
  const began = useRef<number | null>(null);
  const took = useRef<number | null>(null);
  if (growing) began.current ??= Date.now();
  else if (began.current !== null) took.current ??= (Date.now() - began.current) / 1_000;
  if (took.current !== null) return took.current;
  if (started_at == null || finished_at == null) return null;
  return (finished_at - started_at) / 1_000_000;
}
