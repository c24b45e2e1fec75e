/** The sidebar: all chats with their status. */

import { useRef } from "react";
import { useLocation } from "wouter";
import { useStore } from "../reactive/store";
import { useKey } from "../shortcuts";
import type { ChatList } from "../store/chat-list";
import { prefer, preferences } from "../store/preferences";
import { useNarrow } from "../ui/media-query";
import { useActions } from "./chat-row-actions";
import { Rows } from "./chat-rows";
import { FilterLine } from "./filter-button";
import { useFrozenOrder } from "./freeze-order";
import { ResizeHandle } from "./resize-handle";
import { beside } from "./sections";
import { Foot } from "./sidebar-foot";
import { Head, Rail, useFocusToToggle } from "./sidebar-head";
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
  useKey("alt+b", () => prefer({ sidebar: !isWanted }));
  if (!isWanted && !narrow) {
    return (
      <>
        <Rail list={list} onSearch={onSearch} />
        <KeysOfHidden list={list} />
      </>
    );
  }
  return <Whole {...props} />;
}

function Whole({ list, onSearch, onKeys = () => {} }: Props) {
  const narrow = useNarrow();
  const nav = useRef<HTMLElement>(null);
  useFocusToToggle(nav);
  return (
    <nav ref={nav} className="sidebar" aria-label="Chats">
      <Head list={list} onSearch={onSearch} />
      <FilterLine />
      <Scroller list={list} />
      <ConnectionStatus list={list} />
      <Foot onKeys={onKeys} />
      {!narrow && <ResizeHandle />}
    </nav>
  );
}

function Scroller({ list }: { readonly list: ChatList }) {
  const region = useRef<HTMLDivElement>(null);
  const shown = useVisibleChats(list, useFrozenOrder(list, region));
  const [actions, dialog] = useActions(list);
  useListKeys(shown);
  return (
    <div ref={region} className="sidebar-list">
      <Rows list={list} shown={shown} actions={actions} />
      {dialog}
    </div>
  );
}

/** The chats beside are there, also for those who do not see the list. */
function KeysOfHidden({ list }: { readonly list: ChatList }) {
  useListKeys(useVisibleChats(list, null));
  return null;
}

function useListKeys({ sections, open, query }: VisibleChats): void {
  const [, navigate] = useLocation();
  const go = (step: 1 | -1) => {
    const id = beside(sections, open, step);
    if (id !== null) navigate(`/chats/${id}${query}`);
  };
  useKey("alt+arrowup", () => go(-1));
  useKey("alt+arrowdown", () => go(1));
}
