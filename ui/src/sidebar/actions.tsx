/** What can be done with a chat of the list. */

import { Archive, ArchiveRestore, Circle, Pencil, Pin, PinOff, Trash2 } from "lucide-react";
import { useMemo, useState } from "react";
import type { Chat } from "../api/types";
import { Deleting } from "../chat/deleting";
import type { Item } from "../parts/menu";
import { attempt, notify } from "../parts/notices";
import type { ChatList } from "../store/chats";

export interface Actions {
  pin(chat: Chat): void;
  /** Null takes the title away. */
  rename(chat: Chat, title: string | null): void;
  archive(chat: Chat): void;
  markUnread(chat: Chat): void;
  /** Asks first. */
  remove(chat: Chat): void;
}

export function useActions(list: ChatList): readonly [Actions, React.ReactNode] {
  const [removing, setRemoving] = useState<Chat | null>(null);
  const actions = useMemo(() => actionsOf(list, setRemoving), [list]);
  const dialog = removing && (
    <Deleting key={removing.id} chat={removing} list={list} onClose={() => setRemoving(null)} />
  );
  return [actions, dialog];
}

function actionsOf(list: ChatList, remove: (chat: Chat) => void): Actions {
  const change = (chat: Chat, to: Parameters<ChatList["change"]>[1]) =>
    attempt(() => list.change(chat.id, to));
  return {
    pin: (chat) => void change(chat, { pinned: !chat.pinned }),
    rename: (chat, title) => void change(chat, { title }),
    archive: async (chat) => {
      const archived = !chat.archived;
      if (!(await change(chat, { archived }))) return;
      const said = archived ? "The chat is archived." : "The chat is back in the list.";
      const undo = () => void change(chat, { archived: !archived });
      notify(said, false, { name: "Undo", onChoose: undo });
    },
    markUnread: (chat) => void attempt(() => list.markUnread(chat.id)),
    remove,
  };
}

const SIZE = 15;

export function itemsOf(
  chat: Chat,
  actions: Actions,
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
  return chat.mine === false ? items : [...items, ...ofOwner(chat, actions, more.rename)];
}

function ofOwner(chat: Chat, actions: Actions, rename: () => void): readonly Item[] {
  return [
    { name: "Rename", ...keyed("F2"), icon: <Pencil size={SIZE} />, onChoose: rename },
    {
      name: chat.archived ? "Back into the list" : "Archive",
      icon: chat.archived ? <ArchiveRestore size={SIZE} /> : <Archive size={SIZE} />,
      onChoose: () => actions.archive(chat),
    },
    "line",
    {
      name: "Delete…",
      ...keyed("Del"),
      look: "danger",
      icon: <Trash2 size={SIZE} />,
      onChoose: () => actions.remove(chat),
    },
  ];
}

/** Keys are of no use to whoever has none. */
function keyed(hint: string): { hint?: string } {
  return matchMedia("(pointer: coarse)").matches ? {} : { hint };
}
