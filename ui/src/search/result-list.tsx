/** The list of search results, with its status line. */

import { useEffect, useRef } from "react";
import { Keys } from "../shortcuts";
import { chatStatusOf, WORDS } from "../sidebar/chat-status";
import { ago } from "../ui/format";
import { MOST } from "./query";
import type { Group, Option, Piece } from "./result-options";
import type { Choice } from "./search";
import type { Found } from "./server-results";

interface Props {
  readonly id: string;
  readonly groups: readonly Group[];
  readonly choice: Choice;
  readonly found: Found;
}

export function Options({ id, groups, choice, found }: Props) {
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
        aria-busy={found.isReading}
      >
        {groups.map((group) => (
          // biome-ignore lint/a11y/useSemanticElements: part of a listbox
          <div key={group.name} role="group" aria-label={group.name}>
            <div className="search-group" aria-hidden="true">
              {group.name}
            </div>
            {group.options.map((option) => (
              <Line
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
      <Note found={found} />
    </>
  );
}

interface LineProps {
  readonly id: string;
  readonly option: Option;
  readonly isActive: boolean;
  readonly choice: Choice;
}

function Line({ id, option, isActive, choice }: LineProps) {
  const { icon, name, keys, chat, inside } = option;
  const word = chat && WORDS[chatStatusOf(chat)];
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
      {word && <span className="search-word">{word}</span>}
      {chat && <span className="search-time">{ago(chat.updated_at, Date.now())}</span>}
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

/** What is to be known about what was found, or why it was not. */
function Note({ found }: { readonly found: Found }) {
  return (
    <div className="search-note" role="status" data-bad={found.problem !== null || undefined}>
      {noteOf(found)}
    </div>
  );
}

function noteOf({ chats, isReading, more, complete, problem }: Found): string {
  if (problem !== null) return problem.message;
  if (chats === null) return "";
  if (!complete) return "The newest messages are still being indexed.";
  if (chats.length === 0) return isReading ? "" : "No matches.";
  if (more) return `The newest ${MOST} are shown: add a word to narrow it down.`;
  return chats.length === 1 ? "1 chat" : `${chats.length} chats`;
}
