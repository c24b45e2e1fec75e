/** Whether the open chat is read-only for this user, so that its actions cannot be answered. */

import { useEffect } from "react";
import { Store, useStore } from "../reactive/store";

const readOnlyChat = new Store<string | null>(null);

/** Called by the head of a chat, for all components of the chat. */
export function useProvideReadOnly(chatId: string, isReadOnly: boolean): void {
  useEffect(() => {
    readOnlyChat.set(isReadOnly ? chatId : null);
    return () => readOnlyChat.set(null);
  }, [chatId, isReadOnly]);
}

export function useIsReadOnly(chatId: string): boolean {
  return useStore(readOnlyChat, (id) => id === chatId);
}
