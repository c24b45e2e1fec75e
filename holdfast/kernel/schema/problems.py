"""Problems in what a model wrote, and their wording for the model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any, Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from holdfast.kernel.schema.arguments import BadArguments
from holdfast.kernel.schema.text import MAX_SENTENCE, cut, quoted

MAX_PROBLEMS: Final = 20
"""Maximum number of problems that are reported to the model."""


class InputTerms(Struct, frozen=True):
    """Names of the validated input in messages to the model."""

    whole: str
    """Name of the whole input."""
    one: str
    """Name of a single value in it."""


ARGUMENT_TERMS: Final = InputTerms("arguments", "argument")
ANSWER_TERMS: Final = InputTerms("the answer", "name")

Path: TypeAlias = tuple[str | int, ...]
"""Path to a value: names in objects, indexes in lists."""

ONE_OF: Final = frozenset({"one of"})
"""Value of `wants` if one of a few values is wanted, whatever their types."""
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
    """Kinds of problems, in the order in which they are reported."""

    MISSING = 0
    TYPE = 1
    VALUE = 2
    UNKNOWN = 3


class ValidationProblem(Struct, frozen=True):
    """One problem of one value."""

    rank: Rank
    path: Path
    words: str = ""
    """Description of the problem; if empty, it is derived from the other fields."""
    value: Any = None
    wants: frozenset[str] = frozenset()
    """Types that would be valid, JSON types by their name in a schema; or ONE_OF."""
    member: str = ""
    """Member of a union that has this problem; empty if it is a problem for all."""


def refusal(
    problems: Iterable[ValidationProblem],
    schema: Mapping[str, Any],
    terms: InputTerms = ARGUMENT_TERMS,
) -> BadArguments:
    """The error with one line for each problem, in a stable order."""
    merged: dict[object, ValidationProblem] = {}
    for problem in problems:
        key = (problem.rank, problem.path, problem.words, problem.member)
        # Each member of a union complains on its own about the same value.
        wants = problem.wants | merged.get(key, problem).wants
        merged[key] = replace(problem, wants=wants)
    ordered = sorted(merged.values(), key=_order)
    known = cut(", ".join(schema["properties"]), MAX_SENTENCE) or "none"
    unknown = f"unknown {terms.one}; known: {known}"
    lines = [
        f"{path_text(each.path, terms.whole)}: {_words(each, unknown)}"
        for each in ordered[:MAX_PROBLEMS]
    ]
    return BadArguments(lines, more=max(0, len(ordered) - MAX_PROBLEMS))


def _order(problem: ValidationProblem) -> tuple[object, ...]:
    steps = [(isinstance(step, str), step) for step in problem.path]  # indexes before names
    return problem.rank, steps, problem.words, problem.member


def _words(problem: ValidationProblem, unknown: str) -> str:
    words = _own_words(problem, unknown)
    return f"{words} (for {problem.member})" if problem.member else words


def _own_words(problem: ValidationProblem, unknown: str) -> str:
    if problem.rank is Rank.UNKNOWN:
        return unknown if len(problem.path) == 1 else "unknown"
    if problem.words:
        return problem.words
    wants = problem.wants - {"integer"} if "number" in problem.wants else problem.wants
    kinds = " or ".join(text for kind, text in TYPE_WORDS.items() if kind in wants)
    return f"should be {kinds}, got {quoted(problem.value)}"


def path_text(path: Path, whole: str) -> str:
    """A path in the notation of code; only the end of a long one."""
    steps = [f"[{step}]" if isinstance(step, int) else f".{cut(step)}" for step in path[-8:]]
    return ("…" if len(path) > 8 else "") + "".join(steps).removeprefix(".") or whole
