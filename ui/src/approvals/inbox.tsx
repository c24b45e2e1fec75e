/** The inbox: pending actions of all chats, answered one after the other. */

import { Inbox as Tray } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import { Link } from "wouter";
import { useStore } from "../reactive/store";
import { isTyping } from "../shortcuts";
import type { ChatList } from "../store/chat-list";
import { Back } from "../ui/back-link";
import { Button } from "../ui/button";
import { useNow } from "../ui/clock";
import { ago, nameOf } from "../ui/format";
import { ActionCard, Settled } from "./action-card";
import { type Entry, type Group, grouped, merged } from "./grouping";
import "./approvals.css";
import { readWaiting, waiting } from "./pending-actions";
import { useOpenTitle } from "./tab-title";

interface Props {
  readonly list: ChatList;
}

export function Inbox({ list }: Props) {
  useOpenTitle("Waiting for you");
  useEffect(() => readWaiting(), []);
  const { entries, open, forget } = useEntries();
  const { asked, problem, more } = useStore(waiting);
  const column = useRef<HTMLDivElement>(null);
  useKeys(column);
  const settled = entries.length - open;
  return (
    <div className="inbox">
      <div ref={column} className="inbox-column">
        <Head open={open} settled={settled} onForget={forget} />
        {problem !== null && (
          <p className="card-bad" role="alert">
            {problem.message} <Button onClick={readWaiting}>Try again</Button>
          </p>
        )}
        {grouped(entries).map((group) => (
          <Waiting key={group.rootId} group={group} list={list} />
        ))}
        {more && <p className="inbox-from">There is more: it comes when these are answered.</p>}
        {asked !== null && entries.length === 0 && <Nothing />}
      </div>
    </div>
  );
}

/** What was there when one came, and what came since: see `merged`. */
function useEntries(): { entries: readonly Entry[]; open: number; forget: () => void } {
  const [entries, setEntries] = useState<readonly Entry[]>(() =>
    merged([], waiting.get().asked ?? []),
  );
  useEffect(() => {
    const take = () => {
      const { asked } = waiting.get();
      if (asked !== null) setEntries((before) => merged(before, asked));
    };
    take();
    return waiting.subscribe(take);
  }, []);
  const open = entries.filter(({ settled }) => !settled);
  return { entries, open: open.length, forget: () => setEntries(open) };
}

interface HeadProps {
  readonly open: number;
  readonly settled: number;
  readonly onForget: () => void;
}

function Head({ open, settled, onForget }: HeadProps) {
  return (
    <header className="inbox-head">
      <Back className="inbox-back" />
      <h1>{open > 0 ? `Waiting for you: ${open}` : "Waiting for you"}</h1>
      {open > 1 && (
        <span className="hint">
          <kbd>J</kbd> <kbd>K</kbd> next and previous
        </span>
      )}
      {settled > 0 && (
        <Button look="plain" onClick={onForget}>
          Clear finished
        </Button>
      )}
    </header>
  );
}

function Waiting({ group, list }: { readonly group: Group; readonly list: ChatList }) {
  const { rootId, entries } = group;
  const now = useNow(60_000);
  // The list hears of a new title at once, and knows by what words a chat without one began.
  const listed = useStore(list.chats, ({ byId }) => byId.get(rootId) ?? null);
  const isRead = useStore(list.chats, ({ is }) => is !== "reading");
  const isUnknown = isRead && group.title === null;
  useEffect(() => {
    if (isUnknown) void list.know(rootId);
  }, [list, rootId, isUnknown]);
  const name = nameOf({ title: listed?.title ?? group.title, opening: listed?.opening ?? null });
  const since = Math.min(...entries.map(({ asked }) => asked.asked_at));
  return (
    <section className="inbox-group">
      <h2>
        <Link href={`/chats/${encodeURIComponent(rootId)}`}>{name}</Link>
        <span>{ago(since, now)}</span>
      </h2>
      {entries.map((entry) => (
        <One key={entry.key} entry={entry} />
      ))}
    </section>
  );
}

function One({ entry: { asked, settled } }: { readonly entry: Entry }) {
  const isBelow = asked.chat_id !== asked.root_id;
  // Answered here, the card says so itself; this is for what was answered elsewhere.
  const [answered, setAnswered] = useState(false);
  const gone = settled && !answered;
  const place = useRef<HTMLDivElement>(null);
  return (
    <div ref={place}>
      {isBelow && (
        <p className="inbox-from">
          In a chat that it started,{" "}
          <Link href={`/chats/${encodeURIComponent(asked.chat_id)}`}>
            {asked.title ?? asked.agent}
          </Link>
        </p>
      )}
      {gone ? (
        <Settled how="Answered elsewhere, or no longer needed" action={asked.action} />
      ) : (
        <ActionCard
          chatId={asked.chat_id}
          action={asked.action}
          level={3}
          onSettled={() => {
            setAnswered(true);
            readWaiting();
            if (place.current !== null) goOn(place.current);
          }}
        />
      )}
    </div>
  );
}

function Nothing() {
  return (
    <div className="inbox-empty">
      <Tray size={32} strokeWidth={1.5} aria-hidden="true" />
      <h2>Nothing is waiting for you</h2>
      <p>Approvals and questions from all your chats appear here.</p>
      <Link href="/new">Start a new chat</Link>
    </div>
  );
}

/** From card to card, from wherever the focus is unless it is in a text. */
function useKeys(column: React.RefObject<HTMLDivElement | null>): void {
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      const { target } = event;
      const isHere = target === document.body || column.current?.contains(target as Node);
      if (!isHere || column.current === null || isTyping(target)) return;
      // A menu has had it, or what scrolls will.
      if (event.defaultPrevented || isScrolled(event)) return;
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (step(event.key, column.current)) event.preventDefault();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, [column]);
}

function isScrolled({ key, target }: KeyboardEvent): boolean {
  return key.startsWith("Arrow") && target instanceof HTMLElement && target.matches("pre");
}

function step(key: string, column: HTMLElement): boolean {
  const by = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[key];
  if (by === undefined) return false;
  const cards = [...column.querySelectorAll<HTMLElement>(".card")];
  const at = cards.findIndex((card) => card.contains(document.activeElement));
  const to = at === -1 ? (by > 0 ? 0 : cards.length - 1) : at + by;
  const card = cards[to];
  // Behind the last one the keys scroll, as they do everywhere.
  if (card === undefined) return false;
  card.focus();
  card.scrollIntoView({ block: "nearest" });
  return true;
}

/** From a card that was answered to the next one, unless the person is somewhere else by now. */
function goOn(from: HTMLElement): void {
  const focus = document.activeElement;
  if (focus !== document.body && !from.contains(focus)) return;
  const cards = [...(from.closest(".inbox-column")?.querySelectorAll<HTMLElement>(".card") ?? [])];
  const isBehind = (card: HTMLElement) =>
    from.compareDocumentPosition(card) === Node.DOCUMENT_POSITION_FOLLOWING;
  const others = cards.filter((card) => !from.contains(card));
  (others.find(isBehind) ?? others[0])?.focus();
}
