/** The card of questions from `ask_user`: options, free text, answered together. */

import { type FormEvent, useId, useState } from "react";
import { Button } from "../ui/button";
import { answered, isAnswered, type Question, type Said, SILENCE, toggled } from "./ask-user";
import { type Answering, meant } from "./submit-answer";

interface Props {
  readonly asked: readonly Question[];
  readonly answering: Answering;
  readonly readOnly: boolean;
}

/** One below the other, answered together; some may be left open. */
export function Questions({ asked, answering, readOnly }: Props) {
  const [said, setSaid] = useState<readonly Said[]>(() => asked.map(() => SILENCE));
  const { busy, send } = answering;
  const give = (answers: readonly Said[], how: string) =>
    send({ type: "result", result: answered(asked, answers) }, how);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    give(said, "Answered");
  };
  return (
    <form className="card-form" onSubmit={submit}>
      {asked.map((question, at) => (
        <Asked
          // biome-ignore lint/suspicious/noArrayIndexKey: they are told apart by their place
          key={at}
          question={question}
          said={said[at] ?? SILENCE}
          disabled={readOnly}
          onSay={(now) => setSaid(said.with(at, now))}
        />
      ))}
      {readOnly ? (
        <p className="card-note">Its owner answers this.</p>
      ) : (
        <div className="card-buttons">
          <Button look="main" type="submit" busy={busy} disabled={!said.some(isAnswered)}>
            {busy ? "Sending…" : "Send answer"}
          </Button>
          <Button look="plain" busy={busy} onClick={(event) => meant(event) && give([], "Skipped")}>
            Continue without an answer
          </Button>
        </div>
      )}
    </form>
  );
}

interface AskedProps {
  readonly question: Question;
  readonly said: Said;
  readonly disabled: boolean;
  readonly onSay: (said: Said) => void;
}

function Asked({ question, said, disabled, onSay }: AskedProps) {
  const { header, options, multiple } = question;
  return (
    <fieldset className="card-question" disabled={disabled}>
      <legend>
        {header !== "" && <span className="card-header">{header}</span>}
        {question.question}
        {multiple && <span className="card-several"> (several may be chosen)</span>}
      </legend>
      <Options question={question} said={said} onSay={onSay} />
      <label className="card-own">
        {options.length > 0 ? "In your own words" : "Your answer"}
        <textarea
          className="field"
          rows={options.length > 0 ? 1 : 2}
          value={said.text}
          onChange={(event) => onSay({ ...said, text: event.target.value })}
          onKeyDown={(event) => sends(event) && event.currentTarget.form?.requestSubmit()}
        />
      </label>
    </fieldset>
  );
}

function Options({ question, said, onSay }: Omit<AskedProps, "disabled">) {
  const name = useId();
  // Chosen again, the one that is chosen is taken back: no other click on it would say anything.
  const again = (label: string) => {
    if (!question.multiple && said.chosen.includes(label)) onSay({ ...said, chosen: [] });
  };
  return question.options.map(({ label, description }) => (
    <label key={label} className="card-option">
      <input
        type={question.multiple ? "checkbox" : "radio"}
        name={name}
        checked={said.chosen.includes(label)}
        onClick={() => again(label)}
        onChange={() => onSay(toggled(question, said, label))}
      />
      <span>
        {label}
        {description !== "" && <small>{description}</small>}
      </span>
    </label>
  ));
}

/** Enter sends and Shift Enter makes a line, as in the composer. */
export function sends(event: React.KeyboardEvent): boolean {
  const isIt = event.key === "Enter" && !event.shiftKey && !event.nativeEvent.isComposing;
  if (isIt) event.preventDefault();
  return isIt;
}
