import { useEffect } from "react";
import { useStore } from "../state/store";
import type { OpenChat } from "../store/chat";

/** What is on a screen that somebody looks at has been read. */
export function useRead(chat: OpenChat): void {
  const last = useStore(chat.transcript, ({ messages }) => messages.at(-1)?.number ?? 0);
  useEffect(() => {
    const mark = () => {
      // Not worth a word when it fails: it is marked with the next message.
      if (last > 0 && !document.hidden) chat.readUpTo(last).catch(() => {});
    };
    mark();
    document.addEventListener("visibilitychange", mark);
    return () => document.removeEventListener("visibilitychange", mark);
  }, [chat, last]);
}
