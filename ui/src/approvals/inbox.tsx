/** The inbox: pending actions of all chats, answered one after the other. */

import { Inbox as Tray } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import { Link } from "wouter";
import { useStore } from "../reactive/store";
import { isTyping } from "../shortcuts";
import type { ChatList } from "../store/chat-list";
import { BackLink } from "../ui/back-link";
import { Button } from "../ui/button";
import { useNow } from "../ui/clock";
import { chatName, timeAgo } from "../ui/format";
import { ActionCard, SettledAction } from "./action-card";
import { type Entry, type Group, groupByChat, mergeEntries } from "./grouping";
import "./approvals.css";
import { pendingActions, readPendingActions } from "./pending-actions";
import { useTabTitle } from "./tab-title";

interface Props {
  readonly list: ChatList;
}

export function Inbox({ list }: Props) {
  useTabTitle("Waiting for you");
  useEffect(() => readPendingActions(), []);
  const { entries, open, forget } = useEntries();
  const { actions, problem, more } = useStore(pendingActions);
  const column = useRef<HTMLDivElement>(null);
  useCardKeys(column);
  const settled = entries.length - open;
  return (
    <div className="inbox">
      <div ref={column} className="inbox-column">
        <Head open={open} settled={settled} onForget={forget} />
        {problem !== null && (
          <p className="card-bad" role="alert">
            {problem.message} <Button onClick={readPendingActions}>Try again</Button>
          </p>
        )}
        {groupByChat(entries).map((group) => (
          <ChatGroup key={group.rootId} group={group} list={list} />
        ))}
        {more && (
          <p className="inbox-from">More actions appear here when you have answered these.</p>
        )}
        {actions !== null && entries.length === 0 && <Nothing />}
      </div>
    </div>
  );
}

/** The entries when the inbox was opened, and those added since: see `mergeEntries`. */
function useEntries(): { entries: readonly Entry[]; open: number; forget: () => void } {
  const [entries, setEntries] = useState<readonly Entry[]>(() =>
    mergeEntries([], pendingActions.get().actions ?? []),
  );
  useEffect(() => {
    const take = () => {
      const { actions } = pendingActions.get();
      if (actions !== null) setEntries((before) => mergeEntries(before, actions));
    };
    take();
    return pendingActions.subscribe(take);
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
      <BackLink className="inbox-back" />
      <h1>{open > 0 ? `Waiting for you: ${open}` : "Waiting for you"}</h1>
      {open > 1 && (
        <span className="hint">
          <kbd>J</kbd> <kbd>K</kbd> next and previous
        </span>
      )}
      {settled > 0 && (
        <Button look="plain" onClick={onForget}>
          Clear answered
        </Button>
      )}
    </header>
  );
}

function ChatGroup({ group, list }: { readonly group: Group; readonly list: ChatList }) {
  const { rootId, entries } = group;
  const now = useNow(60_000);
  // The list has new titles at once, and the first words of chats without one.
  const listed = useStore(list.chats, ({ byId }) => byId.get(rootId) ?? null);
  const isRead = useStore(list.chats, ({ is }) => is !== "reading");
  const isUnknown = isRead && group.title === null;
  useEffect(() => {
    if (isUnknown) void list.ensureLoaded(rootId);
  }, [list, rootId, isUnknown]);
  const name = chatName({ title: listed?.title ?? group.title, opening: listed?.opening ?? null });
  const since = Math.min(...entries.map(({ pending: asked }) => asked.asked_at));
  return (
    <section className="inbox-group">
      <h2>
        <Link href={`/chats/${encodeURIComponent(rootId)}`}>{name}</Link>
        <span>{timeAgo(since, now)}</span>
      </h2>
      {entries.map((entry) => (
        <EntryView key={entry.key} entry={entry} />
      ))}
    </section>
  );
}

function EntryView({ entry: { pending, settled } }: { readonly entry: Entry }) {
  const isBelow = pending.chat_id !== pending.root_id;
  // A card answered here shows its answer itself.
  const [answered, setAnswered] = useState(false);
  const isAnsweredElsewhere = settled && !answered;
  const place = useRef<HTMLDivElement>(null);
  return (
    <div ref={place}>
      {isBelow && (
        <p className="inbox-from">
          In a subagent's chat:{" "}
          <Link href={`/chats/${encodeURIComponent(pending.chat_id)}`}>
            {pending.title ?? pending.agent}
          </Link>
        </p>
      )}
      {isAnsweredElsewhere ? (
        <SettledAction how="Answered elsewhere, or no longer needed" action={pending.action} />
      ) : (
        <ActionCard
          chatId={pending.chat_id}
          action={pending.action}
          level={3}
          onSettled={() => {
            setAnswered(true);
            readPendingActions();
            if (place.current !== null) focusNextCard(place.current);
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

/** Keys that move from card to card, unless the focus is in a text field. */
function useCardKeys(column: React.RefObject<HTMLDivElement | null>): void {
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      const { target } = event;
      const isHere = target === document.body || column.current?.contains(target as Node);
      if (!isHere || column.current === null || isTyping(target)) return;
      // A menu has handled the key, or a scroll area will.
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
  // After the last card the keys scroll the page.
  if (card === undefined) return false;
  card.focus();
  card.scrollIntoView({ block: "nearest" });
  return true;
}

/** Moves the focus from an answered card to the next, unless the user has moved it. */
function focusNextCard(from: HTMLElement): void {
  const focus = document.activeElement;
  if (focus !== document.body && !from.contains(focus)) return;
  const cards = [...(from.closest(".inbox-column")?.querySelectorAll<HTMLElement>(".card") ?? [])];
  const isBehind = (card: HTMLElement) =>
    from.compareDocumentPosition(card) === Node.DOCUMENT_POSITION_FOLLOWING;
  const others = cards.filter((card) => !from.contains(card));
  (others.find(isBehind) ?? others[0])?.focus();
}
