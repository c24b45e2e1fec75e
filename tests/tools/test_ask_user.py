"""Questions of an agent to a person."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Agent, RunResult
from holdfast.errors import ConfigError
from holdfast.testing import ScriptedModel, call, call_raw
from holdfast.tools.ask_user import (
    Question,
    QuestionOption,
    UserAnswer,
    answered,
    ask_user,
    questions,
)

DATABASE = Question(
    "Which database?",
    "Storage",
    (QuestionOption("SQLite", "one file"), QuestionOption("PostgreSQL")),
    True,
)
NAME = Question("What is it called?")


async def asked(*given: Any) -> RunResult:
    model = ScriptedModel([call("ask_user", questions=list(given)), "Thank you."])
    return await Agent(model=model, tools=[ask_user()]).run("Make an app.")


async def test_a_question_ends_the_run_until_it_is_answered() -> None:
    waiting = await asked(
        {
            "question": "Which database?",
            "header": "Storage",
            "options": [{"label": "SQLite", "description": "one file"}, {"label": "PostgreSQL"}],
            "multiple": True,
        },
        {"question": "What is it called?"},
    )

    assert waiting.reason == "requires_action"
    (action,) = waiting.actions
    assert action.kind == "answer"
    assert questions(action.arguments) == (DATABASE, NAME)


async def test_the_model_reads_what_was_answered() -> None:
    model = ScriptedModel([call("ask_user", questions=[{"question": "Why?"}]), "I see."])
    agent = Agent(model=model, tools=[ask_user()])
    waiting = await agent.run("Make an app.")
    (action,) = waiting.actions
    said = answered(questions(action.arguments), [UserAnswer(text="For fun.")])

    done = await agent.run(history=waiting.history, resolve={action.call.id: said})

    assert done.reason == "stop"
    assert (
        model.requests[-1].messages[-1].results[0].text == 'Why? → in their own words: "For fun."'
    )


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        [{"question": "Why?"}] * 5,
        [{"question": ""}],
        [{"header": "Why"}],
        [{"question": "Which?", "options": [{"label": str(number)} for number in range(7)]}],
        [{"question": "Which?", "options": [{"description": "no label"}]}],
    ],
    ids=["none", "five", "empty", "no question", "seven options", "no label"],
)
async def test_what_is_no_question_is_told_to_the_model_and_to_nobody_else(wrong: Any) -> None:
    result = await asked(*wrong)

    assert result.reason == "stop"
    (refused,) = [one for message in result.history for one in message.results]
    assert refused.outcome == "failed"


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        (UserAnswer(("SQLite",)), "Which database? → SQLite"),
        (UserAnswer(("SQLite", "PostgreSQL")), "Which database? → SQLite, PostgreSQL"),
        (UserAnswer(text="any"), 'Which database? → in their own words: "any"'),
        (
            UserAnswer(("SQLite",), "for now"),
            'Which database? → SQLite; in their own words: "for now"',
        ),
        (UserAnswer(), "Which database? → no answer"),
        (UserAnswer(text=" \n"), "Which database? → no answer"),
    ],
)
def test_an_answer_is_a_line_that_says_what_it_answers(answer: UserAnswer, line: str) -> None:
    assert answered([DATABASE], [answer]) == line


def test_a_question_without_an_answer_is_said_to_have_none() -> None:
    assert answered([DATABASE, NAME], [UserAnswer(("SQLite",))]).splitlines() == [
        "Which database? → SQLite",
        "What is it called? → no answer",
    ]


def test_more_answers_than_questions_are_refused() -> None:
    with pytest.raises(ConfigError, match="2 answers to 1 questions"):
        answered([NAME], [UserAnswer(text="app"), UserAnswer(text="what?")])


@pytest.mark.parametrize("odd", ["\0", "\ue000", "\ue0000041", "\ud800"])
async def test_odd_text_comes_back_as_it_was_asked(odd: str) -> None:
    asked = json.dumps({"questions": [{"question": f"{odd}?"}]})
    agent = Agent(model=ScriptedModel([call_raw("ask_user", asked)]), tools=[ask_user()])
    (action,) = (await agent.run("Go.")).actions
    assert questions(action.arguments) == (Question(f"{odd}?"),)


texts = st.text(min_size=1)


@given(
    st.lists(st.tuples(texts, st.lists(texts, max_size=3), st.text()), min_size=1, max_size=4),
    st.integers(0, 4),
)
def test_each_question_gets_one_line_whatever_is_asked_and_said(
    pairs: list[tuple[str, list[str], str]], silent: int
) -> None:
    questioned = [Question(question) for question, _, _ in pairs]
    answers = [UserAnswer(tuple(chosen), text) for _, chosen, text in pairs]

    lines = answered(questioned, answers[: max(0, len(answers) - silent)]).splitlines()

    assert len(lines) == len(questioned)
    assert all("→" in line for line in lines)


async def test_the_model_is_told_when_to_ask() -> None:
    model = ScriptedModel(["Hello."])
    await Agent(model=model, tools=[ask_user()]).run("Hello?")
    (spec,) = model.requests[0].tools
    assert spec.description.startswith("Ask the user one to four questions")
