/** Marks a chat as read while it is visible. */

import { useEffect } from "react";
import { useStore } from "../reactive/store";
import type { OpenChat } from "../store/open-chat";

/** Marks the chat as read while the page is visible. */
export function useMarkRead(chat: OpenChat): void {
  const last = useStore(chat.transcript, ({ messages }) => messages.at(-1)?.number ?? 0);
  useEffect(() => {
    const mark = () => {
      // A failure is not reported: the next message marks it again.
      if (last > 0 && !document.hidden) chat.readUpTo(last).catch(() => {});
    };
    mark();
    document.addEventListener("visibilitychange", mark);
    return () => document.removeEventListener("visibilitychange", mark);
  }, [chat, last]);
}
