/** The composer of a chat: a new message, an edit, or the reason why nothing can be sent. */

import { useEffect } from "react";
import { session } from "../api/session";
import { useStore } from "../reactive/store";
import { changeChat, type OpenChat } from "../store/open-chat";
import { Button } from "../ui/button";
import { attempt } from "../ui/notices";
import "./composer.css";
import { EditQueued, EditSent } from "./edit-message";
import { NewMessage } from "./new-message";

interface Props {
  readonly chat: OpenChat;
}

export function Composer({ chat }: Props) {
  const editing = useStore(chat.editing);
  const notice = useReadOnlyNotice(chat);
  const isReadOnly = notice !== null;
  useEffect(() => {
    // Without the composer the edit could not be cancelled.
    if (isReadOnly && editing !== null) chat.editing.set(null);
  }, [chat, isReadOnly, editing]);
  if (notice !== null) return notice;
  switch (editing?.is) {
    case "message":
      return <EditSent key={editing.stored.number} chat={chat} stored={editing.stored} />;
    case "queued":
      return <EditQueued key={editing.queued.id} chat={chat} queued={editing.queued} />;
    default:
      return <NewMessage chat={chat} />;
  }
}

/** Notice that replaces the composer when the chat cannot be written to; null otherwise. */
function useReadOnlyNotice(chat: OpenChat) {
  const now = useStore(session);
  const owner = useStore(chat.transcript, (transcript) => transcript.chat?.owner ?? null);
  const archived = useStore(chat.transcript, (transcript) => transcript.chat?.archived ?? false);
  if (now.is !== "in" || owner === null) return null;
  if (owner !== now.me.user) {
    return <p className="composer-read-only">This chat is shared with you. It is read-only.</p>;
  }
  if (!now.me.scopes.includes("write") || now.me.role === "viewer") {
    return <p className="composer-read-only">You have read-only access.</p>;
  }
  if (!archived) return null;
  return (
    <p className="composer-read-only">
      This chat is archived. Unarchive it to send messages.
      <Button onClick={() => attempt(() => changeChat(chat.id, { archived: false }))}>
        Unarchive
      </Button>
    </p>
  );
}
