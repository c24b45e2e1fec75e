/** The card of a client tool: a person enters the result of the call by hand. */

import { type FormEvent, useId, useState } from "react";
import type { Answer } from "../api/types";
import { Button } from "../ui/button";
import { Arguments } from "./approval-form";
import { type Parsed, parseJson } from "./json-input";
import type { AnswerSubmission } from "./submit-answer";

interface Props {
  readonly answering: AnswerSubmission;
  readonly readOnly: boolean;
}

type Form = "text" | "json";

/** A call executed outside the server: its result is entered by hand. */
export function ClientToolForm({ answering, readOnly }: Props) {
  const { action } = answering;
  return (
    <>
      {action.kind === "answer" && (
        <p className="card-tool">
          <code>{action.call.tool}</code>
        </p>
      )}
      <Arguments text={action.arguments} />
      {readOnly ? (
        <p className="card-note">The chat's owner, or a program of theirs, provides the result.</p>
      ) : (
        <ResultForm answering={answering} />
      )}
    </>
  );
}

function ResultForm({ answering }: { readonly answering: AnswerSubmission }) {
  const { action, busy, send } = answering;
  const [text, setText] = useState("");
  const [form, setForm] = useState<Form>("text");
  const [failed, setFailed] = useState(false);
  const id = useId();
  const isQuestion = action.kind === "answer";
  const read = resultOf(form, text, isQuestion);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (read.is === "bad") return;
    const answer: Answer = { type: "result", result: read.value, failed };
    send(answer, failed ? "Reported as failed" : "Answered");
  };
  return (
    <form className="card-form" onSubmit={submit}>
      <label htmlFor={id}>{isQuestion ? "Your answer" : "Result"}</label>
      <textarea
        id={id}
        className={form === "json" ? "field card-code" : "field"}
        rows={3}
        value={text}
        aria-describedby={`${id}-why`}
        aria-invalid={text !== "" && read.is === "bad"}
        onChange={(event) => setText(event.target.value)}
      />
      <p id={`${id}-why`} className="card-bad" aria-live="polite">
        {text !== "" && read.is === "bad" && read.why}
      </p>
      {!isQuestion && (
        <ResultOptions form={form} onForm={setForm} failed={failed} onFailed={setFailed} />
      )}
      <div className="card-buttons">
        <Button look="main" type="submit" busy={busy} disabled={read.is === "bad"}>
          {busy ? "Sending…" : isQuestion ? "Send answer" : "Send result"}
        </Button>
      </div>
    </form>
  );
}

/** A result may well be empty text; an answer may not. */
function resultOf(form: Form, text: string, isQuestion: boolean): Parsed<unknown> {
  if (form === "json") return parseJson(text);
  if (isQuestion && text.trim() === "") return { is: "bad", why: "Nothing entered yet." };
  return { is: "good", value: text };
}

interface ResultOptionsProps {
  readonly form: Form;
  readonly onForm: (form: Form) => void;
  readonly failed: boolean;
  readonly onFailed: (failed: boolean) => void;
}

function ResultOptions({ form, onForm, failed, onFailed }: ResultOptionsProps) {
  const name = useId();
  const forms: readonly (readonly [Form, string])[] = [
    ["text", "Text"],
    ["json", "JSON"],
  ];
  return (
    <div className="card-how">
      {forms.map(([value, words]) => (
        <label key={value}>
          <input type="radio" name={name} checked={form === value} onChange={() => onForm(value)} />
          {words}
        </label>
      ))}
      <label>
        <input
          type="checkbox"
          checked={failed}
          onChange={(event) => onFailed(event.target.checked)}
        />
        The call failed
      </label>
    </div>
  );
}
