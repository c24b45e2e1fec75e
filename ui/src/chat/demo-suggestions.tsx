/** The notice that the demo model answers, and prompts to try with it. */

import { Link } from "wouter";
import type { Agent } from "../api/types";
import { suggestionsFor } from "./suggestions";

/** Says that the demo is not a language model. */
export function DemoNotice() {
  return (
    <p className="new-demo">
      This is the demo: a small program, not a language model. It calls real tools and needs no API
      key. To use a language model, <Link href="/settings/providers">set a provider's key</Link>.
    </p>
  );
}

interface Props {
  readonly agent: Agent | undefined;
  readonly disabled: boolean;
  readonly onChoose: (prompt: string) => void;
}

export function Suggestions({ agent, disabled, onChoose }: Props) {
  return (
    <section aria-labelledby="new-suggestions">
      <h2 id="new-suggestions" className="new-suggestions-head">
        Try one of these
      </h2>
      <ul className="new-suggestions">
        {suggestionsFor(agent).map(({ name, prompt }) => (
          <li key={name}>
            <button
              type="button"
              className="new-suggestion"
              disabled={disabled}
              onClick={() => onChoose(prompt)}
            >
              <span>{name}</span>
              <code>{prompt}</code>
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}
