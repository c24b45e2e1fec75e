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
  // It closes first: so the focus goes to where it was, and from there on with what is left.
  const leave = async (what: () => Promise<unknown>, notice: string) => {
    onClose();
    if (path === here) go("/");
    if (await attempt(what)) notify(notice);
    // Unless they have gone elsewhere by then.
    else if (path === here && location.pathname === "/") go(here);
  };
  const archive = () => leave(() => list.change(chat.id, { archived: true }), "Archived.");
  const remove = () => leave(() => list.remove(chat.id), "Deleted.");
  const { messages } = chat;
  return (
    <Dialog title={`Delete “${chatName(chat)}”?`} onClose={onClose}>
      <p>
        This permanently deletes{" "}
        {messages === 1 ? "its only message" : `all of its ${messages} messages`}, its queue and
        every chat that it started. A running agent is stopped. Files that agents wrote to a
        directory are kept.
      </p>
      <div className="dialog-buttons">
        <Button onClick={onClose}>Keep it</Button>
        {!chat.archived && <Button onClick={() => void archive()}>Archive instead</Button>}
        <Button look="danger" onClick={() => void remove()}>
          Delete permanently
        </Button>
      </div>
    </Dialog>
  );
}
