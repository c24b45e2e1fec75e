/** The list of search results, with its status line. */

import { useEffect, useRef } from "react";
import { Keys } from "../shortcuts";
import { chatStatusOf, STATUS_LABELS } from "../sidebar/chat-status";
import { timeAgo } from "../ui/format";
import { LIMIT } from "./query";
import type { Group, Option, Piece } from "./result-options";
import type { Selection } from "./search";
import type { SearchResults } from "./server-results";

interface Props {
  readonly id: string;
  readonly groups: readonly Group[];
  readonly choice: Selection;
  readonly results: SearchResults;
}

export function Options({ id, groups, choice, results }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const { active } = choice;
  useEffect(() => {
    if (active === null) return;
    box.current?.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: "nearest" });
  }, [active]);
  return (
    <>
      <div
        ref={box}
        id={id}
        className="search-results"
        role="listbox"
        aria-label="Results"
        tabIndex={-1}
        aria-busy={results.isReading}
      >
        {groups.map((group) => (
          // biome-ignore lint/a11y/useSemanticElements: part of a listbox
          <div key={group.name} role="group" aria-label={group.name}>
            <div className="search-group" aria-hidden="true">
              {group.name}
            </div>
            {group.options.map((option) => (
              <OptionView
                key={option.key}
                id={`${id}-${option.key}`}
                option={option}
                isActive={option.key === active}
                choice={choice}
              />
            ))}
          </div>
        ))}
      </div>
      <Note results={results} />
    </>
  );
}

interface LineProps {
  readonly id: string;
  readonly option: Option;
  readonly isActive: boolean;
  readonly choice: Selection;
}

function OptionView({ id, option, isActive, choice }: LineProps) {
  const { icon, name, keys, chat, inside } = option;
  const status = chat && STATUS_LABELS[chatStatusOf(chat)];
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: keys are taken by the input
    // biome-ignore lint/a11y/useFocusableInteractive: the input has the focus
    <div
      id={id}
      className="search-option"
      role="option"
      aria-selected={isActive}
      data-inside={inside || undefined}
      onPointerMove={() => !isActive && choice.point(option.key)}
      onClick={() => choice.choose(option)}
    >
      {icon}
      <span className="search-name">
        <Marked pieces={name} />
      </span>
      {status && <span className="search-word">{status}</span>}
      {chat && <span className="search-time">{timeAgo(chat.updated_at, Date.now())}</span>}
      {keys && <Keys of={keys} />}
    </div>
  );
}

function Marked({ pieces }: { readonly pieces: readonly Piece[] }) {
  return pieces.map(({ text, found }, index) =>
    // biome-ignore lint/suspicious/noArrayIndexKey: pieces of one text
    found ? <mark key={index}>{text}</mark> : <span key={index}>{text}</span>,
  );
}

/** The status line: number of results, an incomplete index, or an error. */
function Note({ results }: { readonly results: SearchResults }) {
  return (
    <div className="search-note" role="status" data-bad={results.problem !== null || undefined}>
      {noteOf(results)}
    </div>
  );
}

function noteOf({ chats, isReading, more, complete, problem }: SearchResults): string {
  if (problem !== null) return problem.message;
  if (chats === null) return "";
  if (!complete) return "The newest messages are still being indexed.";
  if (chats.length === 0) return isReading ? "" : "No matches.";
  if (more) return `The newest ${LIMIT} are shown. Add a word to narrow the search.`;
  return chats.length === 1 ? "1 chat" : `${chats.length} chats`;
}
