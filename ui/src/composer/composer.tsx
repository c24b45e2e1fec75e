/** Where one speaks to a chat. */

import { useEffect } from "react";
import { session } from "../api/session";
import { Button } from "../parts/button";
import { attempt } from "../parts/notices";
import { useStore } from "../state/store";
import { changeChat, type OpenChat } from "../store/chat";
import "./composer.css";
import { EditQueued, EditSaid } from "./editing";
import { Speak } from "./speak";

interface Props {
  readonly chat: OpenChat;
}

export function Composer({ chat }: Props) {
  const editing = useStore(chat.editing);
  const silent = useSilence(chat);
  const isSilent = silent !== null;
  useEffect(() => {
    // There would be nothing to leave it with.
    if (isSilent && editing !== null) chat.editing.set(null);
  }, [chat, isSilent, editing]);
  if (silent !== null) return silent;
  switch (editing?.is) {
    case "message":
      return <EditSaid key={editing.stored.number} chat={chat} stored={editing.stored} />;
    case "queued":
      return <EditQueued key={editing.queued.id} chat={chat} queued={editing.queued} />;
    default:
      return <Speak chat={chat} />;
  }
}

/** Why nothing can be said here, if so. */
function useSilence(chat: OpenChat) {
  const now = useStore(session);
  const owner = useStore(chat.transcript, (transcript) => transcript.chat?.owner ?? null);
  const archived = useStore(chat.transcript, (transcript) => transcript.chat?.archived ?? false);
  if (now.is !== "in" || owner === null) return null;
  if (owner !== now.me.user) {
    return <p className="composer-silent">This chat is shared with you: you can read it.</p>;
  }
  if (!now.me.scopes.includes("write") || now.me.role === "viewer") {
    return <p className="composer-silent">You can read here, and not write.</p>;
  }
  if (!archived) return null;
  return (
    <p className="composer-silent">
      Unarchive it to go on.
      <Button onClick={() => attempt(() => changeChat(chat.id, { archived: false }))}>
        Unarchive
      </Button>
    </p>
  );
}
