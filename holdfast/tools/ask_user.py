"""Questions of an agent to a person: a tool that is never run, its answers come from outside."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from holdfast.kernel.errors import ConfigError, FormatError
from holdfast.kernel.tool import Tool
from holdfast.tools.description import description

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
            "description": "What may be chosen; none for a question with a free answer",
        },
        "multiple": {
            "type": "boolean",
            "description": "Whether several options may be chosen together; false unless set",
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


class Option(Struct, frozen=True):
    """One of several things that a person may choose."""

    label: str
    description: str = ""


class Question(Struct, frozen=True):
    """What a person is asked. They may always answer in their own words."""

    question: str
    header: str = ""
    options: tuple[Option, ...] = ()
    multiple: bool = False
    """Several options may be chosen."""


class Answer(Struct, frozen=True):
    """What a person said to a question. Neither of the two: they did not answer it."""

    chosen: tuple[str, ...] = ()
    """Labels of options."""
    text: str = ""
    """Their own words."""


class _Asked(Struct, frozen=True):
    questions: tuple[Question, ...]


def ask_user() -> Tool:
    """The tool that asks. A run that calls it ends with `requires_action`, of kind `answer`."""
    return Tool(
        name=NAME,
        description=description(__file__),
        schema=SCHEMA,
        action="answer",
        label="ask the user",
    )


def questions(arguments: str) -> tuple[Question, ...]:
    """The questions of an action, from its `arguments`."""
    # Not msgspec's reader, which refuses half of a surrogate pair.
    try:
        return msgspec.convert(json.loads(arguments), _Asked).questions
    except (ValueError, RecursionError) as error:
        raise FormatError(f"these are no questions: {error}") from None


def answered(asked: Sequence[Question], answers: Sequence[Answer]) -> str:
    """What the model reads, a line for each question: pass it on in `resolve`.

    A question beyond the last answer was not answered.
    """
    if len(answers) > len(asked):
        raise ConfigError(f"{len(answers)} answers to {len(asked)} questions: give one to each")
    silence = (Answer(),) * (len(asked) - len(answers))
    pairs = zip(asked, (*answers, *silence), strict=True)
    return "\n".join(f"{_line(one.question)} {_said(answer)}" for one, answer in pairs)


def _said(answer: Answer) -> str:
    said = [", ".join(map(_line, answer.chosen))] if answer.chosen else []
    if answer.text.strip():
        said.append(f'in their own words: "{_line(answer.text)}"')
    return f"→ {'; '.join(said)}" if said else "→ no answer"


def _line(text: str) -> str:
    return " ".join(text.split())
