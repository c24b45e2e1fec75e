/** The tab's title, with the number of pending actions in front. */

import { useEffect } from "react";
import { Store, useStore } from "../reactive/store";
import type { ChatList } from "../store/chat-list";
import { needing, tabTitle } from "./grouping";
import { followWaiting, waiting } from "./pending-actions";

const open = new Store<string | null>(null);

/** What is open, for the tab's title. */
export function useOpenTitle(title: string | null): void {
  useEffect(() => {
    open.set(title);
    return () => open.set(null);
  }, [title]);
}

/** How many things wait; until that was read, how many chats of the list have some. */
export function useNeeds(list: ChatList): number {
  const listed = useStore(list.chats, ({ byId }) => needing(byId));
  const known = useStore(waiting, ({ asked }) => asked?.length ?? null);
  return known ?? listed;
}

/** Once on the page: keeps the count right, and shows it in front of the tab's title. */
export function useNeedsInTitle(list: ChatList): void {
  useEffect(() => followWaiting(list), [list]);
  const count = useNeeds(list);
  const title = useStore(open);
  useEffect(() => {
    document.title = tabTitle(count, title);
  }, [count, title]);
}
