/** The chats that the sidebar shows now, after filters and collapsed sections. */

import { useEffect, useLayoutEffect, useMemo, useRef } from "react";
import { useLocation, useRoute, useSearch } from "wouter";
import { useStore } from "../reactive/store";
import type { ChatList } from "../store/chat-list";
import { preferences, setPreferences } from "../store/preferences";
import { useNow } from "../ui/clock";
import { countFilters, type Filters, filtersOf, queryOf, serverQueryOf } from "./filters";
import type { FrozenOrder, Section, SectionKey } from "./sections";
import { sectionsOf } from "./sections";

const EVERY = 30_000;

export interface VisibleChats {
  readonly sections: readonly Section[];
  readonly filters: Filters;
  /** Query string to append to URLs opened from the list. */
  readonly query: string;
  readonly open: string | null;
  readonly now: number;
}

export function useVisibleChats(list: ChatList, frozen: FrozenOrder | null): VisibleChats {
  const chats = useStore(list.chats, ({ byId }) => byId);
  const folded = useStore(preferences, (now) => now.folded);
  const [filters] = useFilters();
  const open = useOpenChat();
  const now = useNow(EVERY);
  const shown = useMemo(
    () => sectionsOf({ chats, now, filters, collapsed: new Set(folded), frozen, open }),
    [chats, now, filters, folded, frozen, open],
  );
  useEffect(() => list.setQuery(serverQueryOf(filters)), [list, filters]);
  return { sections: shown, filters, query: queryOf(filters), open, now };
}

export function useOpenChat(): string | null {
  const [isOpen, params] = useRoute("/chats/:id");
  return isOpen ? params.id : null;
}

/** Filters survive navigation to a URL that does not name them. */
export function useFilters(): readonly [Filters, (filters: Filters) => void] {
  const [path, navigate] = useLocation();
  const search = useSearch();
  const named = useMemo(() => filtersOf(search), [search]);
  const last = useRef({ path, filters: named });
  const areLost =
    path !== last.current.path &&
    countFilters(named) === 0 &&
    countFilters(last.current.filters) > 0;
  const filters = areLost ? last.current.filters : named;
  useLayoutEffect(() => {
    last.current = { path, filters };
    if (areLost) navigate(path + queryOf(filters) + location.hash, { replace: true });
  }, [path, filters, areLost, navigate]);
  const change = (wanted: Filters) => {
    last.current = { path, filters: wanted };
    navigate(path + queryOf(wanted) + location.hash, { replace: true });
  };
  return [filters, change];
}

export function setFolded(key: SectionKey, isFolded: boolean): void {
  const others = preferences.get().folded.filter((each) => each !== key);
  setPreferences({ folded: isFolded ? [...others, key] : others });
}
