/** The tab's title, with the number of pending actions in front. */

import { useEffect } from "react";
import { Store, useStore } from "../reactive/store";
import type { ChatList } from "../store/chat-list";
import { countWaitingChats, tabTitle } from "./grouping";
import { followPendingActions, pendingActions } from "./pending-actions";

const open = new Store<string | null>(null);

/** What is open, for the tab's title. */
export function useTabTitle(title: string | null): void {
  useEffect(() => {
    open.set(title);
    return () => open.set(null);
  }, [title]);
}

/** How many things wait; until that was read, how many chats of the list have some. */
export function usePendingCount(list: ChatList): number {
  const listed = useStore(list.chats, ({ byId }) => countWaitingChats(byId));
  const pending = useStore(pendingActions, ({ actions: asked }) => asked?.length ?? null);
  return pending ?? listed;
}

/** Once on the page: keeps the count right, and shows it in front of the tab's title. */
export function usePendingCountInTitle(list: ChatList): void {
  useEffect(() => followPendingActions(list), [list]);
  const count = usePendingCount(list);
  const title = useStore(open);
  useEffect(() => {
    document.title = tabTitle(count, title);
  }, [count, title]);
}
