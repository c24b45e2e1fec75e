/** The sidebar: all chats with their status. */

import { useRef } from "react";
import { useLocation } from "wouter";
import { useStore } from "../reactive/store";
import { useShortcut } from "../shortcuts";
import type { ChatList } from "../store/chat-list";
import { preferences, setPreferences } from "../store/preferences";
import { useNarrow } from "../ui/media-query";
import { useChatRowActions } from "./chat-row-actions";
import { ChatRows } from "./chat-rows";
import { FilterLine } from "./filter-button";
import { useFrozenOrder } from "./freeze-order";
import { ResizeHandle } from "./resize-handle";
import { neighbourOf } from "./sections";
import { SidebarFoot } from "./sidebar-foot";
import { Rail, SidebarHead, useFocusToToggle } from "./sidebar-head";
import { useVisibleChats, type VisibleChats } from "./visible-chats";
import "./sidebar.css";
import { ConnectionStatus } from "./connection-status";

interface Props {
  readonly list: ChatList;
  readonly onSearch: () => void;
  readonly onKeys?: () => void;
}

export function Sidebar(props: Props) {
  const { list, onSearch } = props;
  const isWanted = useStore(preferences, ({ sidebar }) => sidebar);
  const narrow = useNarrow();
  useShortcut("alt+b", () => setPreferences({ sidebar: !isWanted }));
  if (!isWanted && !narrow) {
    return (
      <>
        <Rail list={list} onSearch={onSearch} />
        <HiddenListKeys list={list} />
      </>
    );
  }
  return <WholeSidebar {...props} />;
}

function WholeSidebar({ list, onSearch, onKeys = () => {} }: Props) {
  const narrow = useNarrow();
  const nav = useRef<HTMLElement>(null);
  useFocusToToggle(nav);
  return (
    <nav ref={nav} className="sidebar" aria-label="Chats">
      <SidebarHead list={list} onSearch={onSearch} />
      <FilterLine />
      <Scroller list={list} />
      <ConnectionStatus list={list} />
      <SidebarFoot onKeys={onKeys} />
      {!narrow && <ResizeHandle />}
    </nav>
  );
}

function Scroller({ list }: { readonly list: ChatList }) {
  const region = useRef<HTMLDivElement>(null);
  const shown = useVisibleChats(list, useFrozenOrder(list, region));
  const [actions, dialog] = useChatRowActions(list);
  useListKeys(shown);
  return (
    <div ref={region} className="sidebar-list">
      <ChatRows list={list} shown={shown} actions={actions} />
      {dialog}
    </div>
  );
}

/** Keys for the previous and next chat while the sidebar is hidden. */
function HiddenListKeys({ list }: { readonly list: ChatList }) {
  useListKeys(useVisibleChats(list, null));
  return null;
}

function useListKeys({ sections, open, query }: VisibleChats): void {
  const [, navigate] = useLocation();
  const go = (step: 1 | -1) => {
    const id = neighbourOf(sections, open, step);
    if (id !== null) navigate(`/chats/${id}${query}`);
  };
  useShortcut("alt+arrowup", () => go(-1));
  useShortcut("alt+arrowdown", () => go(1));
}
