"""The form that the last answer of a run has to have: asking for it, and checking whether it came.

Pure. Whoever drives a run asks `judge` when the run would stop; how often an answer was asked for
again in this turn is read off the history like everything else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias, Union

from msgspec import Struct

from holdfast.kernel.errors import InvalidOutput
from holdfast.kernel.messages import TRANSPARENT, Message, Text, ToolCall, ToolResult
from holdfast.kernel.model import Shape
from holdfast.kernel.policy import Policy
from holdfast.kernel.schema import VALUE, BadArguments, complaint, form_of_answer

BRACKETS: Final = frozenset("{}[]")
WRAPPED: Final = re.compile(rf'\{{\s*"{VALUE}"\s*:')
"""How the object begins that a value was asked for in."""


class Fits(Struct, frozen=True):
    """The answer is what was asked for."""

    value: Any


class Misfit(Struct, frozen=True):
    """It is not."""

    problems: tuple[str, ...]


class Repair(Struct, frozen=True):
    """Ask for the answer again: the model is told this."""

    text: str


Verdict: TypeAlias = Union[Fits, Repair]


class Output:
    """An output type, as it is asked for and as it is checked. Built once for each agent."""

    def __init__(self, wanted: Any) -> None:
        form = form_of_answer(wanted)
        schema = form.check.schema
        self.shape = Shape(schema, form.name, str(schema.get("description", "")))
        self._form = form
        value = schema["properties"][VALUE] if form.wrapped else schema
        self._is_text = value.get("type") == "string"

    def check(self, text: str) -> Fits | Misfit:
        """The value that an answer gives, or all that is wrong with it.

        The text as it stands comes first. Then what a model that was not held to the form likes to
        put around it may go: a fence, or words around the one object that there is.
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

    def _object(self, text: str) -> str:
        """The text, or, where the value alone was written, the object that it belongs into.

        Where a text was asked for, what is no JSON of a text is the text itself: `true` is a word.
        """
        if not self._form.wrapped:
            return text
        if WRAPPED.match(text) if self._is_text else text.startswith("{"):
            return text
        may_be_json = text.startswith('"') or not self._is_text
        value = text if may_be_json and complaint(text) is None else json.dumps(text)
        return f'{{"{VALUE}": {value}}}'


def _readings(text: str) -> Iterator[str]:
    """What the answer in a text may be, the likeliest first."""
    text = text.strip()
    if not text:
        return
    yield text
    if fenced := _fenced(text):
        yield fenced
    if (inside := _only_object(text)) is not None:
        yield inside


def _fenced(text: str) -> str:
    """What is in the fence that a text consists of, or nothing."""
    if len(text) < 6 or not (text.startswith("```") and text.endswith("```")):
        return ""
    return text[3:-3].strip().removeprefix("json").strip()


def _only_object(text: str) -> str | None:
    """The one object that a text leads up to. In the middle of a sentence it is an example, and
    brackets around it could mean anything."""
    start = text.find("{")
    try:
        _, end = json.JSONDecoder().raw_decode(text, start) if start >= 0 else (None, 0)
    except (ValueError, RecursionError):
        return None
    if not end:
        return None
    before = text[:start].rstrip(" ")
    leads_up = not before or before.endswith((":", "\n"))
    return text[start:end] if leads_up and BRACKETS.isdisjoint(before + text[end:]) else None


def judge(output: Output, history: Sequence[Message], repairs: int, policy: Policy) -> Verdict:
    """Whether a run may stop with its last answer. Raises `InvalidOutput` once it never may.

    `repairs` is how often in this turn it was already asked for again.
    """
    verdict = value_in(output, spoken(history))
    if isinstance(verdict, Fits):
        return verdict
    if repairs >= policy.repairs:
        raise InvalidOutput(verdict.problems, repairs)
    return Repair("\n- ".join((policy.wording.repair, *verdict.problems)))


def value_in(output: Output, texts: Sequence[str]) -> Fits | Misfit:
    """The value that the pieces of an answer give, or all that is wrong with it."""
    verdict = output.check("".join(texts))
    if isinstance(verdict, Misfit) and len(texts) > 1:
        # Asked to go on, a model may begin anew; one that is held to the form has to.
        anew = output.check(texts[-1])
        verdict = anew if isinstance(anew, Fits) else verdict
    return verdict


def spoken(history: Sequence[Message]) -> list[str]:
    """The text of the last answer; if it goes on from ones that were cut by length, theirs too."""
    texts: list[str] = []
    expected = "answer"
    for message in reversed(history):
        if message.visibility == "user" or message.kind in TRANSPARENT:
            continue
        if message.kind == "answer" and expected == "answer":
            texts.append(_last_words(message))
            expected = "recovery"
        elif message.why == "recovery" and expected == "recovery":
            expected = "answer"
        else:
            break
    return texts[::-1]


def _last_words(answer: Message) -> str:
    """The text behind what the provider executed: before it a model says what it is about to do."""
    parts = answer.parts
    calls = (at for at, part in enumerate(parts) if isinstance(part, (ToolCall, ToolResult)))
    behind = parts[max(calls, default=-1) + 1 :]
    text = "".join(part.text for part in behind if isinstance(part, Text))
    return text if text.strip() else answer.text
