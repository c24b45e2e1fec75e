/** Hook for the slash menu: open state, selection and keys. */

import { type KeyboardEvent, useId, useState } from "react";
import { useStore } from "../reactive/store";
import type { OpenChat } from "../store/open-chat";
import type { Draft } from "./draft";
import { runSlashCommand } from "./run-command";
import {
  type Command,
  type CommandStatus,
  commandQuery,
  matchingCommands,
  whyUnavailable,
  wrappedIndex,
} from "./slash-commands";
import { optionId } from "./slash-menu";

/** The commands that fit what is written, and the keys that choose among them. */
export function useSlashMenu(chat: OpenChat, draft: Draft, status: CommandStatus | null) {
  const id = useId();
  const text = useStore(draft.content, (content) => content.text);
  const [chosen, choose] = useState({ text: "", at: 0 });
  /** The text whose menu was left. */
  const [dismissed, dismiss] = useState<string | null>(null);
  const [helping, help] = useState(false);
  const query = commandQuery(text);
  const commands = query === null || dismissed === text ? [] : matchingCommands(query);
  const open = commands.length > 0;
  // A new query selects the first command.
  const at = chosen.text === text ? Math.min(chosen.at, commands.length - 1) : 0;

  const take = (command: Command) => {
    if (whyUnavailable(command, status) !== null) return;
    draft.type("");
    if (command.name === "help") help(true);
    else void runSlashCommand(command.name, chat);
  };
  const press = (event: KeyboardEvent): boolean => {
    const command = commands[at];
    if (command === undefined) return false;
    const action = keyAction(event);
    if (action === null) return false;
    event.preventDefault();
    if (action === "take") take(command);
    else if (action === "leave") dismiss(text);
    else choose({ text, at: wrappedIndex(at, action, commands.length) });
    return true;
  };
  const popup = open ? { id, active: optionId(id, at) } : null;
  const list = { id, commands, active: at, status, onChoose: take };
  return { open, press, popup, list, helping, closeHelp: () => help(false) };
}

function keyAction(event: KeyboardEvent): 1 | -1 | "take" | "leave" | null {
  if (event.shiftKey || event.altKey || event.ctrlKey || event.metaKey) return null;
  switch (event.key) {
    case "ArrowDown":
      return 1;
    case "ArrowUp":
      return -1;
    case "Enter":
    case "Tab":
      return "take";
    case "Escape":
      return "leave";
    default:
      return null;
  }
}
