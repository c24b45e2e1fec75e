import { useLocation } from "wouter";
import type { Snapshot } from "../api/types";
import { Button } from "../parts/button";
import { Dialog } from "../parts/dialog";
import { attempt, notify } from "../parts/notices";
import { nameOf } from "../parts/words";
import type { ChatList } from "../store/chats";

interface Props {
  readonly chat: Snapshot & { readonly opening?: string | null };
  readonly list: ChatList;
  readonly onClose: () => void;
}

/** Says what goes, before it is gone. */
export function Deleting({ chat, list, onClose }: Props) {
  const [path, go] = useLocation();
  const here = `/chats/${chat.id}`;
  // It closes first: so the focus goes to where it was, and from there on with what is left.
  const leave = async (what: () => Promise<unknown>, said: string) => {
    onClose();
    if (path === here) go("/");
    if (await attempt(what)) notify(said);
    // Unless they have gone elsewhere by then.
    else if (path === here && location.pathname === "/") go(here);
  };
  const archive = () => leave(() => list.change(chat.id, { archived: true }), "Archived.");
  const remove = () => leave(() => list.remove(chat.id), "Deleted.");
  const { messages } = chat;
  return (
    <Dialog title={`Delete “${nameOf(chat)}”?`} onClose={onClose}>
      <p>
        {messages === 1 ? "Its only message goes" : `All of its ${messages} messages go`} for good,
        with what waits in its queue and every chat that it set to work. An agent that is at work is
        stopped. Files that agents wrote to a directory stay.
      </p>
      <div className="dialog-buttons">
        <Button onClick={onClose}>Keep it</Button>
        {!chat.archived && <Button onClick={() => void archive()}>Archive instead</Button>}
        <Button look="danger" onClick={() => void remove()}>
          Delete for good
        </Button>
      </div>
    </Dialog>
  );
}
