import { useLocation } from "wouter";
import { Button } from "../parts/button";
import { useStore } from "../state/store";
import type { ChatList } from "../store/chats";
import { howMany, NO_FILTERS } from "./filters";
import { useFilters } from "./shown";

/** Why there is no chat to see, and what one can do about it. */
export function Empty({ list }: { readonly list: ChatList }) {
  const [filters, change] = useFilters();
  const [, navigate] = useLocation();
  const isAll = useStore(list.chats, ({ next }) => next === null);
  if (howMany(filters) === 0) {
    return (
      <div className="sidebar-rows-empty">
        <p>No chats yet. Hand an agent something to do.</p>
        <Button look="main" onClick={() => navigate("/new")}>
          New chat
        </Button>
      </div>
    );
  }
  const isArchiveOnly = filters.archived && howMany(filters) === 1;
  const none = isArchiveOnly ? "Nothing is archived." : "No chat fits.";
  return (
    <div className="sidebar-rows-empty" role="status">
      <p>{isAll ? none : "None so far. Older ones are being looked through…"}</p>
      <Button onClick={() => change(NO_FILTERS)}>
        {isArchiveOnly ? "Show the list" : "Show all chats"}
      </Button>
    </div>
  );
}
