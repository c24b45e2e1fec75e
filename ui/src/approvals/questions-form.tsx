/** The card of questions from `ask_user`: options, free text, answered together. */

import { type FormEvent, useId, useState } from "react";
import { Button } from "../ui/button";
import {
  answersText,
  isAnswered,
  NO_ANSWER,
  type Question,
  type QuestionAnswer,
  withToggled,
} from "./ask-user";
import { type AnswerSubmission, isIntentional } from "./submit-answer";

interface Props {
  readonly questions: readonly Question[];
  readonly answering: AnswerSubmission;
  readonly readOnly: boolean;
}

/** Questions that are answered together; some may stay unanswered. */
export function QuestionsForm({ questions, answering, readOnly }: Props) {
  const [answers, setAnswers] = useState<readonly QuestionAnswer[]>(() =>
    questions.map(() => NO_ANSWER),
  );
  const { busy, send } = answering;
  const submitAnswers = (answers: readonly QuestionAnswer[], how: string) =>
    send({ type: "result", result: answersText(questions, answers) }, how);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    submitAnswers(answers, "Answered");
  };
  return (
    <form className="card-form" onSubmit={submit}>
      {questions.map((question, at) => (
        <QuestionField
          // biome-ignore lint/suspicious/noArrayIndexKey: they are told apart by their place
          key={at}
          question={question}
          answer={answers[at] ?? NO_ANSWER}
          disabled={readOnly}
          onAnswer={(now) => setAnswers(answers.with(at, now))}
        />
      ))}
      {readOnly ? (
        <p className="card-note">The chat's owner answers this.</p>
      ) : (
        <div className="card-buttons">
          <Button look="main" type="submit" busy={busy} disabled={!answers.some(isAnswered)}>
            {busy ? "Sending…" : "Send answer"}
          </Button>
          <Button
            look="plain"
            busy={busy}
            onClick={(event) => isIntentional(event) && submitAnswers([], "Skipped")}
          >
            Continue without an answer
          </Button>
        </div>
      )}
    </form>
  );
}

interface QuestionProps {
  readonly question: Question;
  readonly answer: QuestionAnswer;
  readonly disabled: boolean;
  readonly onAnswer: (answer: QuestionAnswer) => void;
}

function QuestionField({ question, answer, disabled, onAnswer }: QuestionProps) {
  const { header, options, multiple } = question;
  return (
    <fieldset className="card-question" disabled={disabled}>
      <legend>
        {header !== "" && <span className="card-header">{header}</span>}
        {question.question}
        {multiple && <span className="card-several"> (choose any number)</span>}
      </legend>
      <Options question={question} answer={answer} onAnswer={onAnswer} />
      <label className="card-own">
        {options.length > 0 ? "In your own words" : "Your answer"}
        <textarea
          className="field"
          rows={options.length > 0 ? 1 : 2}
          value={answer.text}
          onChange={(event) => onAnswer({ ...answer, text: event.target.value })}
          onKeyDown={(event) => isSendKey(event) && event.currentTarget.form?.requestSubmit()}
        />
      </label>
    </fieldset>
  );
}

function Options({ question, answer, onAnswer }: Omit<QuestionProps, "disabled">) {
  const name = useId();
  // A click on the chosen radio button clears it.
  const again = (label: string) => {
    if (!question.multiple && answer.chosen.includes(label)) onAnswer({ ...answer, chosen: [] });
  };
  return question.options.map(({ label, description }) => (
    <label key={label} className="card-option">
      <input
        type={question.multiple ? "checkbox" : "radio"}
        name={name}
        checked={answer.chosen.includes(label)}
        onClick={() => again(label)}
        onChange={() => onAnswer(withToggled(question, answer, label))}
      />
      <span>
        {label}
        {description !== "" && <small>{description}</small>}
      </span>
    </label>
  ));
}

/** Whether the key is Enter without Shift, which sends, as in the composer. */
export function isSendKey(event: React.KeyboardEvent): boolean {
  const isSend = event.key === "Enter" && !event.shiftKey && !event.nativeEvent.isComposing;
  if (isSend) event.preventDefault();
  return isSend;
}
