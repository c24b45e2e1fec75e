/** The list of matching slash commands above the composer. */

import { useEffect, useRef } from "react";
import { type Command, type CommandStatus, whyUnavailable } from "./slash-commands";

interface Props {
  readonly id: string;
  readonly commands: readonly Command[];
  readonly active: number;
  readonly status: CommandStatus | null;
  readonly onChoose: (command: Command) => void;
}

export function optionId(list: string, at: number): string {
  return `${list}-${at}`;
}

/** The matching commands. The focus stays in the text field, which controls the selection. */
export function SlashMenu({ id, commands, active, status, onChoose }: Props) {
  const list = useRef<HTMLDivElement>(null);
  useEffect(() => {
    list.current?.children[active]?.scrollIntoView({ block: "nearest" });
  }, [active]);
  return (
    <div ref={list} id={id} className="composer-slash" role="listbox" aria-label="Commands">
      {commands.map((command, at) => {
        const why = whyUnavailable(command, status);
        return (
          // biome-ignore lint/a11y/useKeyWithClickEvents: the keys are those of the text field
          <div
            key={command.name}
            id={optionId(id, at)}
            role="option"
            tabIndex={-1}
            aria-selected={at === active}
            aria-disabled={why !== null || undefined}
            className="composer-command"
            // The text field keeps the focus.
            onPointerDown={(event) => event.preventDefault()}
            onClick={() => onChoose(command)}
          >
            <span className="composer-command-name">/{command.name}</span>
            <span className="composer-command-about">
              {command.about}
              {why !== null && <em> ({why})</em>}
            </span>
          </div>
        );
      })}
    </div>
  );
}
