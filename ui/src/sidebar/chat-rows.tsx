/** The list of chats by section, with its loading, empty and error states. */

import { ChevronRight } from "lucide-react";
import { type KeyboardEvent, useEffect, useMemo, useRef } from "react";
import { useStore } from "../reactive/store";
import { isTyping } from "../shortcuts";
import { catalogStore } from "../store/catalog";
import type { ChatList } from "../store/chat-list";
import { Button } from "../ui/button";
import { timeAgo } from "../ui/format";
import { onNearEnd } from "../ui/infinite-scroll";
import { ChatRow } from "./chat-row";
import type { ChatRowActions } from "./chat-row-actions";
import { startTimesOf } from "./duplicate-titles";
import { EmptyList } from "./empty-list";
import type { Section } from "./sections";
import { setFolded, type VisibleChats } from "./visible-chats";

interface Props {
  readonly list: ChatList;
  readonly shown: VisibleChats;
  readonly actions: ChatRowActions;
}

export function ChatRows({ list, shown, actions }: Props) {
  const is = useStore(list.chats, (chats) => chats.is);
  const { sections, now } = shown;
  const isEmpty = sections.length === 0;
  const startTimes = useMemo(() => startTimesOf(sections, now), [sections, now]);
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: keys move between what is inside
    <div className="sidebar-rows" onKeyDown={move}>
      {sections.map((section, index) => (
        <SectionView
          key={section.key}
          section={section}
          shown={shown}
          startTimes={startTimes}
          actions={actions}
          isFirst={index === 0}
        />
      ))}
      {isEmpty && is === "reading" && <Skeleton />}
      {isEmpty && is === "rest" && <EmptyList list={list} />}
      <More list={list} isEmpty={isEmpty} />
    </div>
  );
}

interface SectionViewProps {
  readonly section: Section;
  readonly shown: VisibleChats;
  readonly startTimes: ReadonlyMap<string, string>;
  readonly actions: ChatRowActions;
  readonly isFirst: boolean;
}

function SectionView({ section, shown, startTimes, actions, isFirst }: SectionViewProps) {
  const { key, rows } = section;
  const agents = useStore(catalogStore, (now) => now?.agents);
  const defaultModels = useMemo(
    () => new Map(agents?.map(({ name: agent, model }) => [agent, model])),
    [agents],
  );
  const hasOpen = shown.sections.some((each) => each.rows.some(({ id }) => id === shown.open));
  const id = `part-${key}`;
  return (
    <section className="sidebar-part" aria-labelledby={id}>
      <SectionHead id={id} section={section} />
      <ul>
        {rows.map((chat, index) => (
          <ChatRow
            key={chat.id}
            chat={chat}
            isOpen={chat.id === shown.open}
            isStop={hasOpen ? chat.id === shown.open : isFirst && index === 0}
            href={`/chats/${chat.id}${shown.query}`}
            time={timeAgo(chat.updated_at, shown.now)}
            startTime={startTimes.get(chat.id) ?? null}
            defaultModel={defaultModels.get(chat.agent) ?? null}
            actions={actions}
          />
        ))}
      </ul>
    </section>
  );
}

function SectionHead({ id, section }: { readonly id: string; readonly section: Section }) {
  const { key, name, isOpen, count } = section;
  return (
    <h2>
      <button
        id={id}
        type="button"
        className="sidebar-part-head"
        aria-expanded={isOpen}
        data-stop=""
        data-key={key}
        onClick={() => setFolded(key, isOpen)}
      >
        <span>{name}</span>
        <span className="sidebar-part-count">
          <span className="hidden-text">, chats: </span>
          {count}
        </span>
        <ChevronRight size={14} className="sidebar-part-arrow" />
      </button>
    </h2>
  );
}

/** Loads older chats near the end of the list; after an error, only on request. */
function More({ list, isEmpty }: { readonly list: ChatList; readonly isEmpty: boolean }) {
  const end = useRef<HTMLDivElement>(null);
  const { next, is, problem } = useStore(list.chats);
  useEffect(() => {
    if (end.current === null || next === null || is !== "rest") return;
    const sight = { root: end.current.closest(".sidebar-list"), rootMargin: "600px" };
    return onNearEnd(end.current, sight, () => void list.readMore());
  }, [list, next, is]);
  return (
    <div ref={end} className="sidebar-rows-more">
      {is === "failed" && (
        <div role="alert">
          <p>{problem?.message}</p>
          <Button onClick={() => void list.retry()}>Try again</Button>
        </div>
      )}
      {is === "reading" && !isEmpty && next !== null && <span className="spinner" />}
    </div>
  );
}

function Skeleton() {
  return (
    <div className="sidebar-rows-skeleton" role="status">
      <span className="hidden-text">Loading your chats…</span>
      {[72, 54, 88, 61, 79, 48, 66].map((width) => (
        <div key={width} aria-hidden="true">
          <span className="sidebar-rows-bar" style={{ width: `${width}%` }} />
          <span className="sidebar-rows-bar" style={{ width: `${width / 2}%` }} />
        </div>
      ))}
    </div>
  );
}

/** Arrow keys move from row to row, across all sections. */
function move(event: KeyboardEvent<HTMLElement>): void {
  // Handled by a row's menu.
  if (event.defaultPrevented || event.altKey || event.ctrlKey || event.metaKey) return;
  const on = event.target as HTMLElement;
  if (isTyping(on)) return;
  if (on.dataset.key !== undefined && (event.key === "ArrowLeft" || event.key === "ArrowRight")) {
    setFolded(on.dataset.key as Section["key"], event.key === "ArrowLeft");
    return;
  }
  const stops = [...event.currentTarget.querySelectorAll<HTMLElement>("[data-stop]")];
  const at = stops.indexOf(
    on.closest(".sidebar-row")?.querySelector<HTMLElement>("[data-stop]") ?? on,
  );
  if (at === -1) return;
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: stops.length - 1 }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  stops[to]?.focus();
}
