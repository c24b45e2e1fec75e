/** Whether the open chat is read-only for this user, so that its actions cannot be answered. */

import { useEffect } from "react";
import { Store, useStore } from "../reactive/store";

const onlyRead = new Store<string | null>(null);

/** Said once by the head of a chat, for all that stands below it. */
export function useReadOnly(chatId: string, isReadOnly: boolean): void {
  useEffect(() => {
    onlyRead.set(isReadOnly ? chatId : null);
    return () => onlyRead.set(null);
  }, [chatId, isReadOnly]);
}

export function useIsReadOnly(chatId: string): boolean {
  return useStore(onlyRead, (id) => id === chatId);
}
