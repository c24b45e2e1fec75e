"""What is wrong with what a model wrote, and the words in which it is told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any, Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from holdfast.kernel.schema.arguments import BadArguments
from holdfast.kernel.schema.text import MAX_SENTENCE, cut, quoted

MAX_PROBLEMS: Final = 20
"""Problems that are told to the model."""


class InputTerms(Struct, frozen=True):
    """What is checked, as the model knows it."""

    whole: str
    one: str
    """A value in it that has a name."""


ARGUMENT_TERMS: Final = InputTerms("arguments", "argument")
ANSWER_TERMS: Final = InputTerms("the answer", "name")

Path: TypeAlias = tuple[str | int, ...]
"""The way to a value: names in objects, indexes in lists."""

ONE_OF: Final = frozenset({"one of"})
"""Wanted is one of a few values, whatever their types."""
TYPE_WORDS: Final[Mapping[str, str]] = {
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "string": "a string",
    "array": "a list",
    "object": "an object",
    "null": "null",
}


class Rank(IntEnum):
    """Sorts of problems, in the order in which they are told."""

    MISSING = 0
    TYPE = 1
    VALUE = 2
    UNKNOWN = 3


class ValidationProblem(Struct, frozen=True):
    rank: Rank
    path: Path
    words: str = ""
    """Made from the other fields when empty."""
    value: Any = None
    wants: frozenset[str] = frozenset()
    """Types, those of JSON by their name in a schema, that would have been right; or ONE_OF."""


def refusal(
    problems: Iterable[ValidationProblem],
    schema: Mapping[str, Any],
    words: InputTerms = ARGUMENT_TERMS,
) -> BadArguments:
    """What the model is told: one line for each problem, in an order that does not vary."""
    merged: dict[object, ValidationProblem] = {}
    for problem in problems:
        key = (problem.rank, problem.path, problem.words)
        # Each member of a union complains on its own about the same value.
        wants = problem.wants | merged.get(key, problem).wants
        merged[key] = replace(problem, wants=wants)
    told = sorted(merged.values(), key=_order)
    known = cut(", ".join(schema["properties"]), MAX_SENTENCE) or "none"
    unknown = f"unknown {words.one}; known: {known}"
    lines = [
        f"{path_text(each.path, words.whole)}: {_words(each, unknown)}"
        for each in told[:MAX_PROBLEMS]
    ]
    return BadArguments(lines, more=max(0, len(told) - MAX_PROBLEMS))


def _order(problem: ValidationProblem) -> tuple[object, ...]:
    steps = [(isinstance(step, str), step) for step in problem.path]  # indexes before names
    return problem.rank, steps, problem.words


def _words(problem: ValidationProblem, unknown: str) -> str:
    if problem.rank is Rank.UNKNOWN:
        return unknown if len(problem.path) == 1 else "unknown"
    if problem.words:
        return problem.words
    wants = problem.wants - {"integer"} if "number" in problem.wants else problem.wants
    kinds = " or ".join(text for kind, text in TYPE_WORDS.items() if kind in wants)
    return f"should be {kinds}, got {quoted(problem.value)}"


def path_text(path: Path, whole: str) -> str:
    """A path as code; of a long one the end."""
    steps = [f"[{step}]" if isinstance(step, int) else f".{cut(step)}" for step in path[-8:]]
    return ("…" if len(path) > 8 else "") + "".join(steps).removeprefix(".") or whole
