/** The card of a pending action: approval, question, client tool or child chat. */

import { Check, CircleHelp, GitFork, Plug, ShieldQuestionMark } from "lucide-react";
import { type KeyboardEvent, type ReactNode, useEffect, useId, useRef } from "react";
import { Link } from "wouter";
import type { Pending } from "../api/types";
import { useStore } from "../reactive/store";
import { isTyping } from "../shortcuts";
import { catalogStore } from "../store/catalog";
import { fullTime } from "../ui/format";
import { ApprovalForm } from "./approval-form";
import { questionsOf } from "./ask-user";
import { ClientToolForm } from "./client-tool-form";
import "./approvals.css";
import { QuestionsForm } from "./questions-form";
import { useIsReadOnly } from "./read-only";
import { type AnswerSubmission, useSubmitAnswer } from "./submit-answer";
import { childChats, headline, mainArgument, pressedLetter } from "./wording";

interface Props {
  readonly chatId: string;
  readonly action: Pending;
  /** Only another user may answer it. */
  readonly readOnly?: boolean;
  readonly onSettled?: () => void;
  /** Below the title of a chat, or below the heading of a group. */
  readonly level?: 2 | 3;
}

/** A pending action, with everything needed to answer it. */
export function ActionCard(props: Props) {
  if (props.action.kind === "child") return <ChildChats {...props} />;
  // The form belongs to the arguments that were shown.
  return <Card key={props.action.digest} {...props} />;
}

function Card({ chatId, action: pending, readOnly, onSettled, level = 2 }: Props) {
  const answering = useSubmitAnswer(chatId, pending, onSettled);
  const isReadOnly = useIsReadOnly(chatId) || (readOnly ?? false);
  const { action, sending } = answering;
  const title = useTitle(action);
  const id = useId();
  if (sending.is === "done" || sending.is === "over") {
    const how = sending.is === "done" ? sending.how : "Already answered";
    return <SettledAction how={how} action={action} focuses />;
  }
  return (
    <article
      className="card"
      data-kind={action.kind}
      aria-labelledby={id}
      aria-busy={answering.busy}
      tabIndex={-1}
      onKeyDown={pressByLetter}
    >
      <Heading id={id} level={level} title={title} action={action} />
      {answering.changed && (
        <p className="card-note" role="status">
          This action has changed. The current version is below.
        </p>
      )}
      {action.again && (
        <p className="card-note">
          This call was started before and its outcome is unknown: it may already have taken effect.
          Check before you allow it.
        </p>
      )}
      <Body answering={answering} readOnly={isReadOnly} />
      {sending.is === "refused" && (
        <p className="card-bad" role="alert">
          {sending.why}
        </p>
      )}
    </article>
  );
}

/** Presses the button of a letter, while the focus is in the card and not in a text field. */
function pressByLetter(event: KeyboardEvent<HTMLElement>): void {
  const letter = isTyping(event.target) ? null : pressedLetter(event);
  if (letter === null) return;
  const selector = `button[aria-keyshortcuts="${letter}"]`;
  const button = event.currentTarget.querySelector<HTMLButtonElement>(selector);
  if (button === null) return;
  event.preventDefault();
  button.click();
}

function Body({ answering, readOnly }: { answering: AnswerSubmission; readOnly: boolean }) {
  const { action } = answering;
  const questions = questionsOf(action.call.tool, action.arguments);
  // Another digest is another action: the form is reset.
  const key = action.digest;
  if (action.kind === "approval") {
    return <ApprovalForm key={key} answering={answering} readOnly={readOnly} />;
  }
  if (questions === null || action.kind === "client") {
    return <ClientToolForm key={key} answering={answering} readOnly={readOnly} />;
  }
  return (
    <QuestionsForm key={key} questions={questions} answering={answering} readOnly={readOnly} />
  );
}

const ICONS: Readonly<Record<Pending["kind"], ReactNode>> = {
  approval: <ShieldQuestionMark size={16} />,
  answer: <CircleHelp size={16} />,
  client: <Plug size={16} />,
  child: <GitFork size={16} />,
};

interface HeadingProps {
  readonly id: string;
  readonly level: 2 | 3;
  readonly title: string;
  readonly action: Pending;
}

function Heading({ id, level, title, action }: HeadingProps) {
  const Title = `h${level}` as const;
  const about = action.kind === "approval" ? mainArgument(action.arguments) : "";
  return (
    <header className="card-head">
      <span className="card-icon" aria-hidden="true">
        {ICONS[action.kind]}
      </span>
      <Title id={id}>{title}</Title>
      {about !== "" && <code className="card-argument">{about}</code>}
      {action.deadline != null && (
        <span className="card-until">until {fullTime(action.deadline)}</span>
      )}
    </header>
  );
}

function useTitle({ kind, call, again }: Pending): string {
  const label = useStore(catalogStore, (current) => {
    const tools = current?.agents.flatMap((agent) => agent.tools) ?? [];
    const tool = tools.find((each) => each.name === call.tool);
    return tool?.label ?? "";
  });
  return headline(kind, { name: call.tool, label }, again);
}

interface SettledProps {
  readonly how: string;
  readonly action: Pending;
  /** Answered here: takes the focus, because the pressed button was removed. */
  readonly focuses?: boolean;
}

/** An answered card on one line: the action and its answer. */
export function SettledAction({ how, action, focuses = false }: SettledProps) {
  const title = useTitle(action);
  const about = action.kind === "approval" ? mainArgument(action.arguments) : "";
  const line = useRef<HTMLParagraphElement>(null);
  useEffect(() => {
    if (focuses && document.activeElement === document.body) line.current?.focus();
  }, [focuses]);
  return (
    <p ref={line} className="card-settled" role="status" tabIndex={-1}>
      <Check size={14} aria-hidden="true" />
      <strong>{how}</strong>
      <span>{title}</span>
      {about !== "" && <code className="card-argument">{about}</code>}
    </p>
  );
}

/** A call that waits for subagents: links to their chats. */
function ChildChats({ action }: Props) {
  const children = childChats(action.arguments);
  return (
    <p className="card-settled">
      <GitFork size={14} aria-hidden="true" />
      <span>
        {children.length > 1 ? "Subagents are working on this." : "A subagent is working on this."}
      </span>
      {children.map((id, at) => (
        <Link key={id} href={`/chats/${encodeURIComponent(id)}`}>
          {children.length > 1 ? `Open chat ${at + 1}` : "Open its chat"}
        </Link>
      ))}
    </p>
  );
}
