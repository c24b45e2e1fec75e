/** Actions on a chat of the sidebar, and its context menu. */

import { Archive, ArchiveRestore, Circle, Pencil, Pin, PinOff, Trash2 } from "lucide-react";
import { useMemo, useState } from "react";
import type { Chat } from "../api/types";
import { DeleteDialog } from "../chat/delete-dialog";
import type { ChatList } from "../store/chat-list";
import type { Item } from "../ui/menu";
import { attempt, notify } from "../ui/notices";

export interface ChatRowActions {
  pin(chat: Chat): void;
  /** Null removes the title. */
  rename(chat: Chat, title: string | null): void;
  archive(chat: Chat): void;
  markUnread(chat: Chat): void;
  /** Asks for confirmation. */
  remove(chat: Chat): void;
}

export function useChatRowActions(list: ChatList): readonly [ChatRowActions, React.ReactNode] {
  const [removing, setRemoving] = useState<Chat | null>(null);
  const actions = useMemo(() => actionsOf(list, setRemoving), [list]);
  const dialog = removing && (
    <DeleteDialog key={removing.id} chat={removing} list={list} onClose={() => setRemoving(null)} />
  );
  return [actions, dialog];
}

function actionsOf(list: ChatList, remove: (chat: Chat) => void): ChatRowActions {
  const change = (chat: Chat, to: Parameters<ChatList["change"]>[1]) =>
    attempt(() => list.change(chat.id, to));
  return {
    pin: (chat) => void change(chat, { pinned: !chat.pinned }),
    rename: (chat, title) => void change(chat, { title }),
    archive: async (chat) => {
      const archived = !chat.archived;
      if (!(await change(chat, { archived }))) return;
      const notice = archived ? "Chat archived." : "Chat unarchived.";
      const undo = () => void change(chat, { archived: !archived });
      notify(notice, false, { name: "Undo", onChoose: undo });
    },
    markUnread: (chat) => void attempt(() => list.markUnread(chat.id)),
    remove,
  };
}

const SIZE = 15;

export function itemsOf(
  chat: Chat,
  actions: ChatRowActions,
  more: { readonly rename: () => void; readonly isOpen: boolean },
): readonly Item[] {
  const items: Item[] = [
    {
      name: chat.pinned ? "Unpin" : "Pin",
      icon: chat.pinned ? <PinOff size={SIZE} /> : <Pin size={SIZE} />,
      onChoose: () => actions.pin(chat),
    },
  ];
  if (!chat.unread && !more.isOpen && chat.messages > 0) {
    const icon = <Circle size={SIZE} />;
    items.push({ name: "Mark as unread", icon, onChoose: () => actions.markUnread(chat) });
  }
  return chat.mine === false ? items : [...items, ...ownerItems(chat, actions, more.rename)];
}

function ownerItems(chat: Chat, actions: ChatRowActions, rename: () => void): readonly Item[] {
  return [
    { name: "Rename", ...keyHint("F2"), icon: <Pencil size={SIZE} />, onChoose: rename },
    {
      name: chat.archived ? "Unarchive" : "Archive",
      icon: chat.archived ? <ArchiveRestore size={SIZE} /> : <Archive size={SIZE} />,
      onChoose: () => actions.archive(chat),
    },
    "line",
    {
      name: "Delete…",
      ...keyHint("Del"),
      look: "danger",
      icon: <Trash2 size={SIZE} />,
      onChoose: () => actions.remove(chat),
    },
  ];
}

/** Key hints are left out on touch devices. */
function keyHint(hint: string): { hint?: string } {
  return matchMedia("(pointer: coarse)").matches ? {} : { hint };
}
