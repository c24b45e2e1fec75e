/** The dialog that confirms the deletion of a chat. */

import { useLocation } from "wouter";
import type { Snapshot } from "../api/types";
import type { ChatList } from "../store/chat-list";
import { Button } from "../ui/button";
import { Dialog } from "../ui/dialog";
import { chatName } from "../ui/format";
import { attempt, notify } from "../ui/notices";

interface Props {
  readonly chat: Snapshot & { readonly opening?: string | null };
  readonly list: ChatList;
  readonly onClose: () => void;
}

/** Lists what is deleted, and asks for confirmation. */
export function DeleteDialog({ chat, list, onClose }: Props) {
  const [path, go] = useLocation();
  const here = `/chats/${chat.id}`;
  // Closed first, so that the focus returns to where it was.
  const leave = async (what: () => Promise<unknown>, notice: string) => {
    onClose();
    if (path === here) go("/");
    if (await attempt(what)) notify(notice);
    // Back to the chat, unless the user has navigated away.
    else if (path === here && location.pathname === "/") go(here);
  };
  const archive = () => leave(() => list.change(chat.id, { archived: true }), "Chat archived.");
  const remove = () => leave(() => list.remove(chat.id), "Chat deleted.");
  const { messages } = chat;
  return (
    <Dialog title={`Delete “${chatName(chat)}”?`} onClose={onClose}>
      <p>
        This permanently deletes{" "}
        {messages === 1 ? "its only message" : `all of its ${messages} messages`}, its queue and the
        chats of its subagents. A running turn is interrupted. Files that agents wrote are kept.
      </p>
      <div className="dialog-buttons">
        <Button onClick={onClose}>Cancel</Button>
        {!chat.archived && <Button onClick={() => void archive()}>Archive instead</Button>}
        <Button look="danger" onClick={() => void remove()}>
          Delete permanently
        </Button>
      </div>
    </Dialog>
  );
}
