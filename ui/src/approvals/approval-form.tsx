/** The approval card: allow a call once or for the chat, edit its arguments, or deny it. */

import { ChevronDown } from "lucide-react";
import { type FormEvent, useId, useState } from "react";
import type { Pending } from "../api/types";
import { Diff } from "../timeline/diff";
import { patchWithLead } from "../timeline/parse-diff";
import { Button } from "../ui/button";
import { escapeInvisible } from "../ui/invisible";
import { MenuButton } from "../ui/menu";
import { prettyJson } from "../ui/pretty-json";
import { parseObject } from "./json-input";
import { type AnswerSubmission, isIntentional, useFocusOnMount } from "./submit-answer";

interface Props {
  readonly answering: AnswerSubmission;
  readonly readOnly: boolean;
}

type Mode =
  /** `closed`: the form that was just closed, whose button gets the focus. */
  | { readonly is: "choosing"; readonly closed: Mode["is"] | null }
  | { readonly is: "changing" }
  | { readonly is: "denying" };

/** The form for a call that needs approval. */
export function ApprovalForm({ answering, readOnly }: Props) {
  const [mode, setMode] = useState<Mode>({ is: "choosing", closed: null });
  const back = () => setMode({ is: "choosing", closed: mode.is });
  return (
    <>
      <CallPreview action={answering.action} />
      {readOnly && <p className="card-note">The chat's owner decides whether this call may run.</p>}
      {!readOnly && mode.is === "choosing" && (
        <Choices
          answering={answering}
          closed={mode.closed}
          onChange={() => setMode({ is: "changing" })}
          onDeny={() => setMode({ is: "denying" })}
        />
      )}
      {!readOnly && mode.is === "changing" && <ArgumentsForm answering={answering} onBack={back} />}
      {!readOnly && mode.is === "denying" && <DenyForm answering={answering} onBack={back} />}
    </>
  );
}

/** The tool's preview of the call, and its exact arguments. */
function CallPreview({ action }: { readonly action: Pending }) {
  const preview = escapeInvisible(action.preview ?? "");
  if (preview.trim() === "") return <Arguments text={action.arguments} />;
  return (
    <>
      <div className="card-preview">
        <Preview text={preview} />
      </div>
      <details className="card-more">
        <summary>Arguments</summary>
        <Arguments text={action.arguments} />
      </details>
    </>
  );
}

function Preview({ text }: { readonly text: string }) {
  const change = patchWithLead(text);
  if (change === null) return <Preformatted text={text} />;
  return (
    <>
      {change.words !== "" && <p className="card-lead">{change.words}</p>}
      <Diff text={change.patch} />
    </>
  );
}

export function Arguments({ text }: { readonly text: string }) {
  return text === "{}" ? (
    <p className="card-none">No arguments.</p>
  ) : (
    <Preformatted text={escapeInvisible(prettyJson(text))} />
  );
}

/** Scrolls by itself, so it can be reached by keys. */
function Preformatted({ text }: { readonly text: string }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reached by keys
    <pre className="card-text" tabIndex={0}>
      {text}
    </pre>
  );
}

interface ChoicesProps {
  readonly answering: AnswerSubmission;
  readonly closed: Mode["is"] | null;
  readonly onChange: () => void;
  readonly onDeny: () => void;
}

function Choices({ answering, closed, onChange, onDeny }: ChoicesProps) {
  const { action, busy, send } = answering;
  const changes = useFocusOnMount<HTMLButtonElement>(closed === "changing");
  const denies = useFocusOnMount<HTMLButtonElement>(closed === "denying");
  const allow = (for_chat: "call" | "tool" | null) =>
    send({ type: "allow", digest: action.digest, for_chat }, for_chat ? ALWAYS : "Allowed");
  return (
    <div className="card-buttons">
      <Button
        look="main"
        busy={busy}
        aria-keyshortcuts="A"
        onClick={(event) => isIntentional(event) && allow(null)}
      >
        {busy ? "Sending…" : "Allow once"} <KeyHint name="A" />
      </Button>
      {!action.again && (
        <MenuButton
          label="Allow for this chat"
          className="button card-always"
          items={[
            { name: "This call with the same arguments", onChoose: () => allow("call") },
            { name: `Every call to ${action.call.tool}`, onChoose: () => allow("tool") },
          ]}
        >
          Allow for this chat <ChevronDown size={14} aria-hidden="true" />
        </MenuButton>
      )}
      <Button ref={changes} busy={busy} onClick={onChange}>
        Change arguments
      </Button>
      <Button
        ref={denies}
        look="danger"
        busy={busy}
        aria-keyshortcuts="D"
        onClick={(event) => isIntentional(event) && onDeny()}
      >
        Deny <KeyHint name="D" />
      </Button>
    </div>
  );
}

/** The visible key of a button; screen readers get it from `aria-keyshortcuts`. */
function KeyHint({ name }: { readonly name: string }) {
  return (
    <span className="card-key" aria-hidden="true">
      {name}
    </span>
  );
}

const ALWAYS = "Allowed for this chat";

interface FormProps {
  readonly answering: AnswerSubmission;
  readonly onBack: () => void;
}

function ArgumentsForm({ answering, onBack }: FormProps) {
  const { action, busy, send } = answering;
  const [text, setText] = useState(() => prettyJson(action.arguments));
  const field = useFocusOnMount<HTMLTextAreaElement>();
  const id = useId();
  const read = parseObject(text);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (read.is === "bad") return;
    const { digest } = action;
    send({ type: "allow", digest, arguments: read.value }, "Allowed with changed arguments");
  };
  return (
    <form
      className="card-form"
      onSubmit={submit}
      onKeyDown={(event) => isEscape(event) && onBack()}
    >
      <label htmlFor={id}>Arguments for this call</label>
      <textarea
        ref={field}
        id={id}
        className="field card-code"
        spellCheck={false}
        rows={Math.min(16, text.split("\n").length + 1)}
        value={text}
        aria-invalid={read.is === "bad"}
        aria-describedby={`${id}-why`}
        onChange={(event) => setText(event.target.value)}
      />
      <p id={`${id}-why`} className="card-bad" aria-live="polite">
        {read.is === "bad" && read.why}
      </p>
      <div className="card-buttons">
        <Button look="main" type="submit" busy={busy} disabled={read.is === "bad"}>
          {busy ? "Sending…" : "Allow with these arguments"}
        </Button>
        <Button busy={busy} onClick={onBack}>
          Cancel
        </Button>
      </div>
    </form>
  );
}

function DenyForm({ answering, onBack }: FormProps) {
  const { busy, send } = answering;
  const [reason, setReason] = useState("");
  const field = useFocusOnMount<HTMLInputElement>();
  const submit = (event: FormEvent) => {
    event.preventDefault();
    send({ type: "deny", reason: reason.trim() }, "Denied");
  };
  return (
    <form
      className="card-form"
      onSubmit={submit}
      onKeyDown={(event) => isEscape(event) && onBack()}
    >
      <label>
        Reason, or what to do instead (optional)
        <input
          ref={field}
          className="field"
          maxLength={10_000}
          value={reason}
          onChange={(event) => setReason(event.target.value)}
        />
      </label>
      <div className="card-buttons">
        <Button look="danger" type="submit" busy={busy}>
          {busy ? "Sending…" : "Deny"}
        </Button>
        <Button busy={busy} onClick={onBack}>
          Cancel
        </Button>
      </div>
    </form>
  );
}

/** Whether the key is Escape, which closes the form and nothing else. */
export function isEscape(event: React.KeyboardEvent): boolean {
  if (event.key !== "Escape") return false;
  event.preventDefault();
  event.stopPropagation();
  return true;
}
