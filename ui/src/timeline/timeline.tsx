/**
 * The timeline of a chat, from the earliest message loaded to what is being written.
 *
 * A log with announcements off: screen readers would read each word as it arrives. Starts, ends and
 * pending actions are announced in status.tsx. All rows stay in the page, so that find-in-page,
 * selection and screen readers work; `content-visibility` makes rows out of sight free.
 */

import { ArrowDown } from "lucide-react";
import { type CSSProperties, memo, useLayoutEffect, useRef } from "react";
import { sameItems } from "../reactive/same-items";
import { useStore } from "../reactive/store";
import type { OpenChat } from "../store/open-chat";
import { type Row, RowBuilder } from "../store/rows";
import type { Transcript } from "../store/transcript";
import { type Chunk, Chunks, countUnseen, modelOf, numberOf, stretches } from "./chunks";
import { EarlierView } from "./earlier-messages";
import { useFollow, useStableScroll } from "./follow-output";
import { Summarizing } from "./note-rows";
import { useScrollToMessage } from "./scroll-to-message";
import { TailView } from "./status";
import { TimelineRow } from "./timeline-row";
import "./timeline.css";

interface Props {
  readonly chat: OpenChat;
}

export function Timeline({ chat }: Props) {
  const transcript = useStore(chat.transcript);
  const { committed, growing, chunks } = useChunks(transcript);
  const scroller = useRef<HTMLElement>(null);
  const content = useRef<HTMLDivElement>(null);
  const { isFollowing, toNewest, leave } = useFollow(scroller, content);
  useStableScroll(scroller, anchorOf(committed));
  useScrollToMessage(chat, scroller, committed, leave);
  const fresh = useUnseen(committed, isFollowing);
  const summary = transcript.live.summary;
  return (
    <div className="timeline">
      {/* Headings of answers are below this one. */}
      <h2 className="hidden-text">Conversation</h2>
      <section
        ref={scroller}
        className="timeline-scroll"
        role="log"
        aria-live="off"
        aria-label="Conversation"
        aria-busy={transcript.chat === null}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls is reached by keyboard
        tabIndex={0}
      >
        <div ref={content} className="timeline-content">
          <EarlierView chat={chat} scroller={scroller} />
          {transcript.chat === null && <Skeleton />}
          <AllRows chat={chat} chunks={chunks} />
          {summary !== null && (
            <div className="timeline-row">
              <Summarizing text={summary} />
            </div>
          )}
          {isEmpty(transcript, growing) && <Empty chat={chat} />}
          <TailView chat={chat} />
        </div>
      </section>
      {!isFollowing && <ToNewest fresh={fresh} onClick={toNewest} />}
    </div>
  );
}

interface TimelineRows {
  readonly committed: readonly Row[];
  readonly growing: Row | null;
  readonly chunks: readonly Chunk[];
}

function useChunks(transcript: Transcript): TimelineRows {
  const memory = useRef<{ rows: RowBuilder; chunks: Chunks }>(null);
  memory.current ??= { rows: new RowBuilder(), chunks: new Chunks() };
  const { rows, chunks } = memory.current;
  const committed = rows.committed(transcript);
  const growing = rows.growing(transcript);
  return { committed, growing, chunks: chunks.of(committed, growing) };
}

/** A row near the top that is not merged with earlier rows when they load. */
function anchorOf(rows: readonly Row[]): string | null {
  const row = rows.find(({ kind }) => kind === "prompt") ?? rows[0];
  return row?.key ?? null;
}

/** Number of rows that arrived while the user was scrolled up. */
function useUnseen(rows: readonly Row[], isFollowing: boolean): number {
  const seen = useRef(0);
  const last = rows.at(-1);
  const number = last === undefined ? 0 : numberOf(last);
  useLayoutEffect(() => {
    if (isFollowing) seen.current = number;
  }, [isFollowing, number]);
  return isFollowing ? 0 : countUnseen(rows, seen.current);
}

function isEmpty({ chat, messages, live }: Transcript, growing: Row | null): boolean {
  const isBusy = chat?.status === "running" || live.summary !== null;
  return chat !== null && messages.length === 0 && growing === null && !isBusy;
}

interface AllRowsProps {
  readonly chat: OpenChat;
  readonly chunks: readonly Chunk[];
}

function AllRows({ chat, chunks }: AllRowsProps) {
  const edited = useStore(chat.editing, (now) =>
    now?.is === "message" ? now.stored.number : null,
  );
  return [...stretches(chunks)].map(([number, stretch], at) => (
    <StretchView key={number} chat={chat} chunks={stretch} isFirst={at === 0} edited={edited} />
  ));
}

interface StretchProps {
  readonly chat: OpenChat;
  readonly chunks: readonly Chunk[];
  readonly isFirst: boolean;
  /** The message that is being edited: all messages after it would be replaced. */
  readonly edited: number | null;
}

/** Chunks as one box: far from the screen the browser checks only this box each frame. */
const StretchView = memo(
  function StretchView({ chat, chunks, isFirst, edited }: StretchProps) {
    const rows = chunks.reduce((sum, chunk) => sum + chunk.rows.length, 0);
    return (
      <div className="stretch" data-first={isFirst || undefined} style={unseenSize(rows)}>
        {chunks.map((chunk) => (
          <ChunkView key={chunk.key} chat={chat} chunk={chunk} edited={edited} />
        ))}
      </div>
    );
  },
  (one, other) =>
    one.chat === other.chat &&
    one.isFirst === other.isFirst &&
    one.edited === other.edited &&
    sameItems(one.chunks, other.chunks),
);

interface ChunkProps {
  readonly chat: OpenChat;
  readonly chunk: Chunk;
  readonly edited: number | null;
}

/** Average height of a row in pixels. */
const HEIGHT = 96;

/** Estimated size of rows that were not laid out yet. */
function unseenSize(rows: number): CSSProperties {
  return { containIntrinsicBlockSize: `auto ${rows * HEIGHT}px` };
}

const ChunkView = memo(function ChunkView({ chat, chunk, edited }: ChunkProps) {
  const { rows } = chunk;
  let model = chunk.modelBefore;
  return (
    <div className="chunk" style={unseenSize(rows.length)}>
      {rows.map((row) => {
        const modelBefore = model;
        model = modelOf(row) ?? model;
        const number = numberOf(row);
        const place = edited === null || number < edited ? "" : number > edited ? "gone" : "edited";
        return (
          <TimelineRow
            key={row.key}
            chat={chat}
            row={row}
            modelBefore={modelBefore}
            place={place}
          />
        );
      })}
    </div>
  );
});

interface ToNewestProps {
  readonly fresh: number;
  readonly onClick: () => void;
}

function ToNewest({ fresh, onClick }: ToNewestProps) {
  const words = fresh === 0 ? "" : fresh === 1 ? ", 1 new message" : `, ${fresh} new messages`;
  return (
    <button
      type="button"
      className="timeline-newest"
      aria-label={`Jump to the newest${words}`}
      title="Jump to the newest"
      onClick={onClick}
    >
      <ArrowDown size={18} aria-hidden />
      {fresh > 0 && <span aria-hidden>{fresh}</span>}
    </button>
  );
}

function Empty({ chat }: Props) {
  const isSending = useStore(chat.outbox.unsent, (all) => all.length > 0);
  return isSending ? null : <p className="timeline-empty">No messages yet.</p>;
}

function Skeleton() {
  return (
    <div className="skeleton" role="status" aria-label="Loading the chat">
      <div data-of="prompt" />
      <div />
      <div />
      <div data-of="short" />
      <div data-of="prompt" />
      <div />
      <div data-of="short" />
    </div>
  );
}
