/** The approval card: allow a call once or for the chat, edit its arguments, or deny it. */

import { ChevronDown } from "lucide-react";
import { type FormEvent, useId, useState } from "react";
import type { Pending } from "../api/types";
import { Diff } from "../timeline/diff";
import { leadOf } from "../timeline/parse-diff";
import { Button } from "../ui/button";
import { escapeInvisible } from "../ui/invisible";
import { MenuButton } from "../ui/menu";
import { pretty } from "../ui/pretty-json";
import { readObject } from "./json-input";
import { type Answering, meant, useFocus } from "./submit-answer";

interface Props {
  readonly answering: Answering;
  readonly readOnly: boolean;
}

type Doing =
  /** `left`: what one has just come back from. */
  | { readonly is: "choosing"; readonly left: Doing["is"] | null }
  | { readonly is: "changing" }
  | { readonly is: "denying" };

/** A call that runs only when a person allows it. */
export function Approval({ answering, readOnly }: Props) {
  const [doing, setDoing] = useState<Doing>({ is: "choosing", left: null });
  const back = () => setDoing({ is: "choosing", left: doing.is });
  return (
    <>
      <Shown action={answering.action} />
      {readOnly && <p className="card-note">Its owner decides whether it may run.</p>}
      {!readOnly && doing.is === "choosing" && (
        <Choices
          answering={answering}
          left={doing.left}
          onChange={() => setDoing({ is: "changing" })}
          onDeny={() => setDoing({ is: "denying" })}
        />
      )}
      {!readOnly && doing.is === "changing" && <Changing answering={answering} onBack={back} />}
      {!readOnly && doing.is === "denying" && <Denying answering={answering} onBack={back} />}
    </>
  );
}

/** What it would do, as it says itself; and what exactly it would be called with. */
function Shown({ action }: { readonly action: Pending }) {
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
  const change = leadOf(text);
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
    <p className="card-none">It has no arguments.</p>
  ) : (
    <Preformatted text={escapeInvisible(pretty(text))} />
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
  readonly answering: Answering;
  readonly left: Doing["is"] | null;
  readonly onChange: () => void;
  readonly onDeny: () => void;
}

function Choices({ answering, left, onChange, onDeny }: ChoicesProps) {
  const { action, busy, send } = answering;
  const changes = useFocus<HTMLButtonElement>(left === "changing");
  const denies = useFocus<HTMLButtonElement>(left === "denying");
  const allow = (for_chat: "call" | "tool" | null) =>
    send({ type: "allow", digest: action.digest, for_chat }, for_chat ? ALWAYS : "Allowed");
  return (
    <div className="card-buttons">
      <Button
        look="main"
        busy={busy}
        aria-keyshortcuts="A"
        onClick={(event) => meant(event) && allow(null)}
      >
        {busy ? "Sending…" : "Allow once"} <Key name="A" />
      </Button>
      {!action.again && (
        <MenuButton
          label="Allow for this chat"
          className="button card-always"
          items={[
            { name: "This exact call, from now on", onChoose: () => allow("call") },
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
        onClick={(event) => meant(event) && onDeny()}
      >
        Deny <Key name="D" />
      </Button>
    </div>
  );
}

/** For those who see it; the others are told by the button itself. */
function Key({ name }: { readonly name: string }) {
  return (
    <span className="card-key" aria-hidden="true">
      {name}
    </span>
  );
}

const ALWAYS = "Allowed for this chat";

interface FormProps {
  readonly answering: Answering;
  readonly onBack: () => void;
}

function Changing({ answering, onBack }: FormProps) {
  const { action, busy, send } = answering;
  const [text, setText] = useState(() => pretty(action.arguments));
  const field = useFocus<HTMLTextAreaElement>();
  const id = useId();
  const read = readObject(text);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (read.is === "bad") return;
    const { digest } = action;
    send({ type: "allow", digest, arguments: read.value }, "Allowed with other arguments");
  };
  return (
    <form className="card-form" onSubmit={submit} onKeyDown={(event) => leaves(event) && onBack()}>
      <label htmlFor={id}>Arguments to run it with</label>
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
          {busy ? "Sending…" : "Allow with these"}
        </Button>
        <Button busy={busy} onClick={onBack}>
          Cancel
        </Button>
      </div>
    </form>
  );
}

function Denying({ answering, onBack }: FormProps) {
  const { busy, send } = answering;
  const [reason, setReason] = useState("");
  const field = useFocus<HTMLInputElement>();
  const submit = (event: FormEvent) => {
    event.preventDefault();
    send({ type: "deny", reason: reason.trim() }, "Denied");
  };
  return (
    <form className="card-form" onSubmit={submit} onKeyDown={(event) => leaves(event) && onBack()}>
      <label>
        Why not, or what to do instead (may be left empty)
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

/** Escape leaves the form, and does nothing else. */
export function leaves(event: React.KeyboardEvent): boolean {
  if (event.key !== "Escape") return false;
  event.preventDefault();
  event.stopPropagation();
  return true;
}
