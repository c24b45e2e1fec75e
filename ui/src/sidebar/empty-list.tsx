/** The sidebar's list when it is empty. */

import { useLocation } from "wouter";
import { useStore } from "../reactive/store";
import type { ChatList } from "../store/chat-list";
import { Button } from "../ui/button";
import { countFilters, NO_FILTERS } from "./filters";
import { useFilters } from "./visible-chats";

/** Explains why the list is empty, with a button. */
export function EmptyList({ list }: { readonly list: ChatList }) {
  const [filters, change] = useFilters();
  const [, navigate] = useLocation();
  const isAll = useStore(list.chats, ({ next }) => next === null);
  if (countFilters(filters) === 0) {
    return (
      <div className="sidebar-rows-empty">
        <p>No chats yet. Give an agent something to do.</p>
        <Button look="main" onClick={() => navigate("/new")}>
          New chat
        </Button>
      </div>
    );
  }
  const isArchiveOnly = filters.archived && countFilters(filters) === 1;
  const words = isArchiveOnly ? "No archived chats." : "No chats match.";
  return (
    <div className="sidebar-rows-empty" role="status">
      <p>{isAll ? words : "No matches so far. Loading older chats…"}</p>
      <Button onClick={() => change(NO_FILTERS)}>
        {isArchiveOnly ? "Show all chats" : "Show all chats"}
      </Button>
    </div>
  );
}
