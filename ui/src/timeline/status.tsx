/** The end of the timeline: unsent messages, and the status of the chat. */

import {
  Archive,
  CircleAlert,
  Hand,
  Hourglass,
  OctagonX,
  RotateCw,
  Square,
  TriangleAlert,
  WifiOff,
} from "lucide-react";
import { memo, type ReactNode, useEffect, useRef, useState } from "react";
import { Link } from "wouter";
import { clockSkew } from "../api/clock-skew";
import { outage } from "../api/outage";
import type { Failure, LimitReached, Part } from "../api/types";
import { useIsReadOnly } from "../approvals/read-only";
import { useStore } from "../reactive/store";
import type { OpenChat } from "../store/open-chat";
import type { Unsent } from "../store/outbox";
import { Button } from "../ui/button";
import { useSecondsUntil } from "../ui/clock";
import { useFocusFallback } from "../ui/focus";
import { attempt, notify } from "../ui/notices";
import { limitText, limitTitle } from "./limit";
import { Note } from "./note-rows";
import { Bubble } from "./prompt-row";
import { announcement, endReason, failureTitle, isKeyProblem, type Tail, tailOf } from "./tail";

interface Props {
  readonly chat: OpenChat;
}

export function TailView({ chat }: Props) {
  const unsent = useStore(chat.outbox.unsent);
  const warnings = useStore(chat.transcript, ({ live }) => live.warnings);
  const tail = useTail(chat);
  return (
    <div className="tail">
      {unsent.map((one) => (
        <UnsentView key={one.key} chat={chat} one={one} />
      ))}
      {warnings.map((text) => (
        <Note key={text} icon={<TriangleAlert size={14} />} look="warn">
          {text}
        </Note>
      ))}
      <StatusLine chat={chat} tail={tail} />
      <Announcer tail={tail} />
    </div>
  );
}

function useTail(chat: OpenChat): Tail {
  const { chat: snapshot, live, actions } = useStore(chat.transcript);
  const line = useStore(chat.stream.state);
  const stopping = useStore(chat.stopping);
  return tailOf({ chat: snapshot, live, actions, stream: line, stopping });
}

/** Announces starts, ends and pending actions to screen readers, once each. */
function Announcer({ tail }: { readonly tail: Tail }) {
  const before = useRef<Tail | null>(null);
  const [words, say] = useState("");
  useEffect(() => {
    const announcementText = announcement(before.current, tail);
    before.current = tail;
    if (announcementText !== null) say(announcementText);
  }, [tail]);
  return (
    <div className="hidden-text" role="status">
      {words}
    </div>
  );
}

interface UnsentProps {
  readonly chat: OpenChat;
  readonly one: Unsent;
}

const UnsentView = memo(function UnsentView({ chat, one }: UnsentProps) {
  const { key, prompt, refused } = one;
  const row = useRef<HTMLElement>(null);
  // When it disappears, the focus moves to the composer.
  useFocusFallback(row, () => null);
  return (
    <article
      ref={row}
      className="timeline-row"
      data-unsent={key}
      aria-label="Your message, not sent yet"
    >
      <div className="prompt" data-unsent={refused === undefined ? "sending" : "refused"}>
        <Bubble chatId={chat.id} parts={partsOf(prompt)} />
        {refused === undefined ? (
          <Sending chat={chat} one={one} />
        ) : (
          <div className="prompt-state" role="alert">
            <span>Not sent: {refused}</span>
            <Button onClick={() => chat.outbox.resend(key)}>Send again</Button>
            <Button look="plain" onClick={() => chat.outbox.discard(key)}>
              Discard
            </Button>
          </div>
        )}
      </div>
    </article>
  );
});

/** Milliseconds after which sending counts as slow. */
const SLOW = 4_000;

/** A message being sent. If that takes long, it can be discarded, unless the server has it. */
function Sending({ chat, one }: UnsentProps) {
  const isSlow = useSecondsUntil(one.at + SLOW) === 0;
  const isThere = one.number !== undefined || one.queued !== undefined;
  const discard = () => {
    chat.outbox.discard(one.key);
    notify("Discarded. If it had already reached the server, it will still appear in the chat.");
  };
  return (
    <div className="prompt-state">
      <span>Sending…</span>
      {isSlow && !isThere && (
        <Button look="plain" onClick={discard}>
          Discard
        </Button>
      )}
    </div>
  );
}

/** The parts that the message will have. */
function partsOf(prompt: Unsent["prompt"]): readonly Part[] {
  if (typeof prompt === "string") return [{ type: "text", text: prompt }];
  return prompt.map((part): Part => {
    if (part.type !== "file") return part;
    const { file, data, url, media_type, name } = part;
    return {
      type: "file",
      media_type: media_type ?? "application/octet-stream",
      name: name ?? null,
      data: data ?? null,
      // The file does not belong to the chat yet, so the chat's URL cannot serve it.
      ref: file != null ? null : (url ?? null),
    };
  });
}

interface StatusProps {
  readonly chat: OpenChat;
  readonly tail: Tail;
}

/** The status line. While the agent works, it is as high as the foot that replaces it. */
const StatusLine = memo(
  function StatusLine({ chat, tail }: StatusProps) {
    switch (tail.is) {
      case "rest":
        return null;
      case "retry":
        return <Retrying retry={tail.retry} />;
      case "failed":
        return <FailedTurn chat={chat} failure={tail.failure} />;
      case "reconnecting":
        return <Reconnecting retryAt={tail.retryAt} tries={tail.tries} />;
      case "limit":
        return <LimitBanner chat={chat} limit={tail} />;
      case "stranded":
        return <Stranded />;
      default:
        return <QuietStatus tail={tail} />;
    }
  },
  (one, other) => one.chat === other.chat && sameTail(one.tail, other.tail),
);

function sameTail(one: Tail, other: Tail): boolean {
  const names = Object.keys(one) as (keyof Tail)[];
  return (
    names.length === Object.keys(other).length && names.every((name) => one[name] === other[name])
  );
}

function QuietStatus({ tail }: { readonly tail: Tail }) {
  switch (tail.is) {
    case "thinking":
      return <Quiet icon={<Dots />}>Thinking…</Quiet>;
    case "working":
      return <Quiet icon={<Dots />}>Working…</Quiet>;
    case "stopping":
      return <Quiet icon={<span className="spinner" />}>Stopping…</Quiet>;
    case "stopped":
      return <Quiet icon={<Square size={13} />}>The turn was interrupted.</Quiet>;
    case "archived":
      return <Quiet icon={<Archive size={14} />}>This chat is archived.</Quiet>;
    case "waiting":
      return <Quiet icon={<Hand size={14} />}>{waitingText(tail.people, tail.agents)}</Quiet>;
    case "ended":
      return (
        <Quiet icon={<OctagonX size={14} />}>
          {endReason(tail.reason)} <Link href="/new">New chat</Link>
        </Quiet>
      );
    default:
      return null;
  }
}

function waitingText(people: number, agents: number): string {
  if (people > 0) return "Waiting for an answer above.";
  return agents > 0 ? "Waiting for subagents." : "Waiting.";
}

function Dots() {
  return (
    <span className="dots" aria-hidden>
      <span />
      <span />
      <span />
    </span>
  );
}

interface QuietProps {
  readonly icon: ReactNode;
  readonly children: ReactNode;
}

function Quiet({ icon, children }: QuietProps) {
  return (
    <div className="tail-quiet">
      <span className="call-icon" aria-hidden>
        {icon}
      </span>
      <span>{children}</span>
    </div>
  );
}

interface BannerProps {
  readonly look: "warn" | "bad" | "info";
  readonly icon: ReactNode;
  readonly title: ReactNode;
  readonly children?: ReactNode;
  readonly action?: ReactNode;
}

function Banner({ look, icon, title, children, action }: BannerProps) {
  return (
    <section className="banner" data-look={look} aria-label="Chat status">
      <span className="banner-icon" aria-hidden>
        {icon}
      </span>
      <div className="banner-words">
        <strong>{title}</strong>
        {children}
      </div>
      {action}
    </section>
  );
}

function Retrying({ retry }: { readonly retry: (Tail & { is: "retry" })["retry"] }) {
  // The server's time: this browser's clock may be wrong.
  const secondsLeft = useSecondsUntil((retry.at ?? 0) / 1_000 - useStore(clockSkew));
  return (
    <Banner look="warn" icon={<RotateCw size={16} />} title={failureTitle(retry.failure)}>
      <p>{retry.failure.message}</p>
      <p className="banner-soft">
        {secondsLeft > 0 ? `Retrying in ${secondsLeft} s` : "Retrying now"} · attempt{" "}
        {retry.attempt + 1} of {retry.of}
      </p>
    </Banner>
  );
}

interface FailedProps {
  readonly chat: OpenChat;
  readonly failure: Failure;
}

function FailedTurn({ chat, failure }: FailedProps) {
  const isReadOnly = useIsReadOnly(chat.id);
  const [isRetrying, setRetrying] = useState(false);
  const button = useRef<HTMLButtonElement>(null);
  // The button disappears when the turn continues.
  useFocusFallback(button, () => null);
  // The turn may fail again before this page sees it running.
  // biome-ignore lint/correctness/useExhaustiveDependencies: with each failure
  useEffect(() => setRetrying(false), [failure]);
  const again = async () => {
    setRetrying(true);
    if (!(await attempt(() => chat.retry()))) setRetrying(false);
  };
  const facts = [failure.model, failure.status && `HTTP ${failure.status}`].filter(Boolean);
  return (
    <Banner
      look="bad"
      icon={<CircleAlert size={16} />}
      title={failureTitle(failure)}
      action={
        !isReadOnly && (
          <Button ref={button} busy={isRetrying} onClick={() => void again()}>
            <RotateCw size={14} aria-hidden /> Retry
          </Button>
        )
      }
    >
      <p>
        {failure.message}{" "}
        {isKeyProblem(failure) && (
          <Link href="/settings/providers">Open the provider settings</Link>
        )}
      </p>
      {(failure.detail || facts.length > 0) && (
        <details>
          <summary>Details</summary>
          {facts.length > 0 && <p>{facts.join(" · ")}</p>}
          {failure.detail && <pre>{failure.detail}</pre>}
        </details>
      )}
    </Banner>
  );
}

interface ReconnectingProps {
  readonly retryAt: number;
  readonly tries: number;
}

function Reconnecting({ retryAt, tries }: ReconnectingProps) {
  const first = useStore(outage);
  const secondsLeft = useSecondsUntil(first?.retryAt ?? retryAt);
  return (
    <Banner look="info" icon={<WifiOff size={16} />} title="The connection is lost">
      <p>
        The agent keeps working without this page.{" "}
        {secondsLeft > 0 ? `Reconnecting in ${secondsLeft} s` : "Reconnecting"}
        {tries > 1 ? ` (attempt ${tries}).` : "."}
      </p>
    </Banner>
  );
}

function LimitBanner({ chat, limit }: { readonly chat: OpenChat; readonly limit: LimitReached }) {
  const isReadOnly = useIsReadOnly(chat.id);
  const [isResuming, setResuming] = useState(false);
  const button = useRef<HTMLButtonElement>(null);
  // The button disappears when the turn continues.
  useFocusFallback(button, () => null);
  const resume = async () => {
    setResuming(true);
    await attempt(() => chat.resume());
    // The turn may end at a limit again before this page sees it running.
    setResuming(false);
  };
  return (
    <Banner
      look="info"
      icon={<OctagonX size={16} />}
      title={limitTitle(limit)}
      action={
        !isReadOnly && (
          <Button ref={button} busy={isResuming} onClick={() => void resume()}>
            Continue
          </Button>
        )
      }
    >
      <p>{limitText(limit)}</p>
    </Banner>
  );
}

function Stranded() {
  return (
    <Banner look="warn" icon={<Hourglass size={16} />} title="No worker for this agent">
      <p>The turn starts as soon as a worker with this agent is running. Nothing is lost.</p>
    </Banner>
  );
}
