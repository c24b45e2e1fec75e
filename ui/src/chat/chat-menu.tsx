/** The menu of an open chat. */

import {
  Archive,
  ArchiveRestore,
  Ellipsis,
  FileDown,
  FoldVertical,
  GitFork,
  Pencil,
  Pin,
  PinOff,
  Trash2,
  WandSparkles,
} from "lucide-react";
import type { Chat, Snapshot } from "../api/types";
import type { ChatList } from "../store/chat-list";
import type { OpenChat } from "../store/open-chat";
import { type Item, MenuButton } from "../ui/menu";
import { attempt } from "../ui/notices";
import { type Command, exportTo, type HeadCommand, runChatCommand } from "./chat-actions";

interface Props {
  readonly chat: OpenChat;
  readonly list: ChatList;
  readonly now: Snapshot | Chat;
  readonly mine: boolean;
  readonly onOpen: (command: HeadCommand) => void;
}

const SIZE = 15;

export function ChatMenu({ chat, list, now, mine, onOpen }: Props) {
  const run = (name: Command) => void runChatCommand(name, chat, list, onOpen);
  const change = (what: { pinned?: boolean; archived?: boolean }) =>
    void attempt(() => list.change(chat.id, what));
  const items = mine
    ? [...ownItems(now, run, change), "line" as const, ...exportItems(chat.id), ...lastItems(run)]
    : exportItems(chat.id);
  return (
    <MenuButton label="More actions for this chat" items={items}>
      <Ellipsis size={16} aria-hidden="true" />
    </MenuButton>
  );
}

type Change = (what: { pinned?: boolean; archived?: boolean }) => void;

function ownItems(now: Snapshot | Chat, run: (name: Command) => void, change: Change): Item[] {
  const pinned = "pinned" in now && now.pinned === true;
  const { archived } = now;
  return [
    { name: "Rename", icon: <Pencil size={SIZE} />, onChoose: () => run("rename") },
    {
      name: "Generate a new title",
      icon: <WandSparkles size={SIZE} />,
      onChoose: () => run("retitle"),
    },
    {
      name: pinned ? "Unpin" : "Pin",
      icon: pinned ? <PinOff size={SIZE} /> : <Pin size={SIZE} />,
      onChoose: () => change({ pinned: !pinned }),
    },
    { name: "Fork the whole chat", icon: <GitFork size={SIZE} />, onChoose: () => run("fork") },
    { name: "Compact", icon: <FoldVertical size={SIZE} />, onChoose: () => run("compact") },
    {
      name: archived ? "Unarchive" : "Archive",
      icon: archived ? <ArchiveRestore size={SIZE} /> : <Archive size={SIZE} />,
      onChoose: () => change({ archived: !archived }),
    },
  ];
}

function exportItems(id: string): Item[] {
  const icon = <FileDown size={SIZE} />;
  return [
    { name: "Save as Markdown", icon, onChoose: () => exportTo(id, "markdown") },
    { name: "Save as JSON Lines", icon, onChoose: () => exportTo(id, "jsonl") },
  ];
}

function lastItems(run: (name: Command) => void): Item[] {
  const icon = <Trash2 size={SIZE} />;
  return ["line", { name: "Delete…", icon, look: "danger", onChoose: () => run("delete") }];
}
