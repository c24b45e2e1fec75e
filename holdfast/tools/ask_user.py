"""The `ask_user` tool: an agent's questions, which are answered from outside and never run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from holdfast.kernel.errors import ConfigError, FormatError
from holdfast.kernel.tool import Tool
from holdfast.tools.description_file import description

NAME: Final = "ask_user"

OPTION: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "label": {"type": "string", "minLength": 1, "description": "The choice, in a few words"},
        "description": {"type": "string", "description": "What follows from choosing it"},
    },
    "required": ["label"],
    "additionalProperties": False,
}
QUESTION: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "question": {"type": "string", "minLength": 1, "description": "The whole question"},
        "header": {"type": "string", "description": "What it is about, in a word or two"},
        "options": {
            "type": "array",
            "maxItems": 6,
            "items": OPTION,
            "description": "The options to choose from; none for a free answer",
        },
        "multiple": {
            "type": "boolean",
            "description": "Whether several options may be chosen together. Default: false",
        },
    },
    "required": ["question"],
    "additionalProperties": False,
}
SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "questions": {"type": "array", "minItems": 1, "maxItems": 4, "items": QUESTION},
    },
    "required": ["questions"],
    "additionalProperties": False,
}


class QuestionOption(Struct, frozen=True):
    """One of the options of a question."""

    label: str
    description: str = ""


class Question(Struct, frozen=True):
    """A question to the user, who may always answer in their own words."""

    question: str
    header: str = ""
    options: tuple[QuestionOption, ...] = ()
    multiple: bool = False
    """Whether several options may be chosen."""


class UserAnswer(Struct, frozen=True):
    """An answer of the user. If both fields are empty, the question was not answered."""

    chosen: tuple[str, ...] = ()
    """Labels of the chosen options."""
    text: str = ""
    """The user's own words."""


class _Arguments(Struct, frozen=True):
    questions: tuple[Question, ...]


def ask_user() -> Tool:
    """The `ask_user` tool. A run that calls it ends with `requires_action`, of kind `answer`."""
    return Tool(
        name=NAME,
        description=description(__file__),
        schema=SCHEMA,
        action="answer",
        label="ask the user",
    )


def questions(arguments: str) -> tuple[Question, ...]:
    """Parse the questions of an action from its `arguments`."""
    # Not msgspec's decoder, which rejects lone surrogates.
    try:
        return msgspec.convert(json.loads(arguments), _Arguments).questions
    except (ValueError, RecursionError) as error:
        raise FormatError(f"invalid questions: {error}") from None


def answered(questions: Sequence[Question], answers: Sequence[UserAnswer]) -> str:
    """The text for the model, a line for each question: pass it to `resolve`.

    A question without an answer at its position was not answered.
    """
    if len(answers) > len(questions):
        raise ConfigError(f"{len(answers)} answers to {len(questions)} questions: give one to each")
    missing = (UserAnswer(),) * (len(questions) - len(answers))
    pairs = zip(questions, (*answers, *missing), strict=True)
    return "\n".join(f"{_line(one.question)} {_answer_text(answer)}" for one, answer in pairs)


def _answer_text(answer: UserAnswer) -> str:
    pieces = [", ".join(map(_line, answer.chosen))] if answer.chosen else []
    if answer.text.strip():
        pieces.append(f'in their own words: "{_line(answer.text)}"')
    return f"→ {'; '.join(pieces)}" if pieces else "→ no answer"


def _line(text: str) -> str:
    return " ".join(text.split())
