"""The output type: the required form of the final answer, and its check. Pure.

A driver calls `judge` when the run would stop; the number of repairs in this turn is read from the
history like everything else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias, TypeVar, Union

from msgspec import Struct

from holdfast.kernel import answer
from holdfast.kernel.errors import InvalidOutput
from holdfast.kernel.messages import Message, Text, ToolCall, ToolResult
from holdfast.kernel.model import Shape
from holdfast.kernel.policy import Policy
from holdfast.kernel.schema import VALUE, BadArguments, complaint, output_form, partial_json

T = TypeVar("T")

BRACKETS: Final = frozenset("{}[]")
WRAPPED: Final = re.compile(rf'\{{\s*"{VALUE}"\s*:')
"""Start of the object that wraps a value that is not an object itself."""


class Fits(Struct, frozen=True):
    """The answer fits the output type."""

    value: Any


class Misfit(Struct, frozen=True):
    """The answer does not fit the output type."""

    problems: tuple[str, ...]
    rejected: bool = False
    """Whether it fits, and the check of the agent rejects it."""


class Repair(Struct, frozen=True):
    """Ask for the answer again with this text."""

    text: str


OutputVerdict: TypeAlias = Union[Fits, Repair]


class Output:
    """An output type: its schema for requests, and its validator. Built once per agent."""

    def __init__(self, wanted: Any) -> None:
        form = output_form(wanted)
        schema = form.check.schema
        self.shape = Shape(schema, form.name, str(schema.get("description", "")))
        self._form = form
        value = schema["properties"][VALUE] if form.wrapped else schema
        self._is_text = value.get("type") == "string"

    def check(self, text: str) -> Fits | Misfit:
        """The value of an answer, or all its problems.

        The text is tried unchanged first, then without what an unconstrained model tends to add: a
        code fence, or words around a single object.
        """
        misfit = Misfit(("the answer: there is no text in it",))
        for reading in _readings(text):
            try:
                values: Any = self._form.check.parse(self._object(reading))
            except BadArguments as error:
                rest = (f"and {error.more} more",) if error.more else ()
                misfit = Misfit((*error.problems, *rest))
            else:
                return Fits(values[VALUE] if self._form.wrapped else values)
        return misfit

    def partial(self, text: str, nothing: T, *, complete: bool) -> Any | T:
        """The value of the beginning of an answer, as plain JSON; `nothing` without one.

        A number is part of it once it is complete.
        """
        text = text.lstrip()
        if text.startswith("```"):
            text = text.partition("\n")[2].lstrip().removesuffix("```")
        start = text.find("{") if not self._form.wrapped else 0
        if start < 0 or not _leads_up(text[:start]):
            return nothing
        if self._is_text and not (text.startswith('"') or WRAPPED.match(text)):
            # Perhaps the beginning of the object that wraps the text.
            return nothing if not text or text.startswith("{") else text
        try:
            value = partial_json(text[start:] if complete else _without_number(text[start:]))
        except ValueError:
            return nothing
        if self._form.wrapped and isinstance(value, dict) and text.startswith("{"):
            return value.get(VALUE, nothing)
        return value

    def _object(self, text: str) -> str:
        """The text, or, if it is a bare value, the object that wraps it.

        If a string is required, anything that is not a JSON string is the string itself: `true` is
        a word.
        """
        if not self._form.wrapped:
            return text
        if WRAPPED.match(text) if self._is_text else text.startswith("{"):
            return text
        may_be_json = text.startswith('"') or not self._is_text
        value = text if may_be_json and complaint(text) is None else json.dumps(text)
        return f'{{"{VALUE}": {value}}}'


def _readings(text: str) -> Iterator[str]:
    """Candidates for the answer in a text, the likeliest first."""
    text = text.strip()
    if not text:
        return
    yield text
    if fenced := _fenced(text):
        yield fenced
    if (inside := _only_object(text)) is not None:
        yield inside


def _fenced(text: str) -> str:
    """Content of the code fence that the text consists of; empty without one."""
    if len(text) < 6 or not (text.startswith("```") and text.endswith("```")):
        return ""
    return text[3:-3].strip().removeprefix("json").strip()


def _only_object(text: str) -> str | None:
    """The single object that a text leads up to. An object within a sentence is an example, and
    other brackets around it are ambiguous."""
    start = text.find("{")
    try:
        _, end = json.JSONDecoder().raw_decode(text, start) if start >= 0 else (None, 0)
    except (ValueError, RecursionError):
        return None
    if not end:
        return None
    before = text[:start]
    return text[start:end] if _leads_up(before) and BRACKETS.isdisjoint(text[end:]) else None


def _without_number(text: str) -> str:
    """The text without a number at its end, which may be incomplete. Digits in a string only come
    later."""
    shorter = text.rstrip("0123456789.eE+-")
    return shorter if not shorter or shorter[-1] in " \n\t\r[:," else text


def _leads_up(before: str) -> bool:
    """Whether a text before an object leads up to it: the object is not part of a sentence."""
    before = before.rstrip(" ")
    return (not before or before.endswith((":", "\n"))) and BRACKETS.isdisjoint(before)


def judge(verdict: Fits | Misfit, repairs: int, policy: Policy) -> OutputVerdict:
    """Whether a run may stop with its last answer. Raises `InvalidOutput` after the last repair.

    `repairs` is the number of repairs in this turn so far.
    """
    if isinstance(verdict, Fits):
        return verdict
    if repairs >= policy.repairs:
        raise InvalidOutput(verdict.problems, repairs)
    wording = policy.wording.rejection if verdict.rejected else policy.wording.repair
    return Repair("\n- ".join((wording, *verdict.problems)))


def value_in(output: Output, texts: Sequence[str]) -> Fits | Misfit:
    """The value of an answer in several pieces, or all its problems."""
    verdict = output.check("".join(texts))
    if isinstance(verdict, Misfit) and len(texts) > 1:
        # Asked to continue, a model may start anew; a constrained one has to.
        anew = output.check(texts[-1])
        verdict = anew if isinstance(anew, Fits) else verdict
    return verdict


def json_value_in(output: Output, texts: Sequence[str]) -> Any:
    """The value of an answer in several pieces as plain JSON; None if it does not fit."""
    for text in ("".join(texts), texts[-1]):
        if isinstance(output.check(text), Fits):
            return output.partial(text, None, complete=True)
    return None


def spoken(history: Sequence[Message]) -> list[str]:
    """Texts of the last answer, including the pieces that were cut by length."""
    return [_last_words(message) for message in answer.pieces(history)]


def _last_words(message: Message) -> str:
    """The text after provider-executed calls: before them a model only announces what it does."""
    parts = message.parts
    calls = (at for at, part in enumerate(parts) if isinstance(part, (ToolCall, ToolResult)))
    last = parts[max(calls, default=-1) + 1 :]
    text = "".join(part.text for part in last if isinstance(part, Text))
    return text if text.strip() else message.text
