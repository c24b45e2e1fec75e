/** All chats: which there are, how they stand, and the way to each. */

import { useRef } from "react";
import { useLocation } from "wouter";
import { useNarrow } from "../parts/media";
import { useKey } from "../shortcuts";
import { useStore } from "../state/store";
import type { ChatList } from "../store/chats";
import { prefer, preferences } from "../store/preferences";
import { useActions } from "./actions";
import { Edge } from "./edge";
import { FilterLine } from "./filter";
import { Foot } from "./foot";
import { Head, Rail, useFocusToToggle } from "./head";
import { useHold } from "./hold";
import { Rows } from "./list";
import { beside } from "./sections";
import { type Shown, useShown } from "./shown";
import "./sidebar.css";
import { Trouble } from "./trouble";

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
      <Trouble list={list} />
      <Foot onKeys={onKeys} />
      {!narrow && <Edge />}
    </nav>
  );
}

function Scroller({ list }: { readonly list: ChatList }) {
  const region = useRef<HTMLDivElement>(null);
  const shown = useShown(list, useHold(list, region));
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
  useListKeys(useShown(list, null));
  return null;
}

function useListKeys({ sections, open, query }: Shown): void {
  const [, navigate] = useLocation();
  const go = (step: 1 | -1) => {
    const id = beside(sections, open, step);
    if (id !== null) navigate(`/chats/${id}${query}`);
  };
  useKey("alt+arrowup", () => go(-1));
  useKey("alt+arrowdown", () => go(1));
}
