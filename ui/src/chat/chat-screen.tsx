/** The page of a chat: head, timeline, pending actions and composer. */

import { useEffect, useMemo } from "react";
import { Composer } from "../composer/composer";
import { Queue } from "../composer/queue";
import { useStore } from "../reactive/store";
import type { ChatList } from "../store/chat-list";
import { OpenChat } from "../store/open-chat";
import { Timeline } from "../timeline/timeline";
import { ChatHead } from "./chat-head";
import { ChatNotFound } from "./not-found";
import "./chat.css";
import { useMarkRead } from "./mark-read";

interface Props {
  readonly id: string;
  readonly list: ChatList;
}

export function ChatScreen({ id, list }: Props) {
  const chat = useMemo(() => new OpenChat(id), [id]);
  useEffect(() => {
    chat.open();
    return () => chat.close();
  }, [chat]);
  useMarkRead(chat);
  const notFound = useStore(chat.notFound);
  if (notFound !== null) return <ChatNotFound problem={notFound} />;
  return (
    <div className="chat">
      <ChatHead chat={chat} list={list} />
      <Timeline chat={chat} />
      <div className="chat-foot">
        <Queue chat={chat} />
        <Composer chat={chat} />
      </div>
    </div>
  );
}
