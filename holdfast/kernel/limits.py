"""Limits of steps, tokens, cost and time, and their comparison with what was used. Pure.

    Agent(..., limits=Limits(steps=50, cost=0.50))

Usage is compared before each model call, so the last call may exceed a limit: a limit is not a
promise to the last token, but the next call is not made.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, Literal

from msgspec import Struct
from msgspec.structs import force_setattr

from holdfast.kernel.entry_point import EntryMeta
from holdfast.kernel.errors import ConfigError

if TYPE_CHECKING:
    from holdfast.kernel.result import RunResult

LimitName = Literal["steps", "tokens", "cost", "seconds"]
LIMIT_NAMES: Final[tuple[LimitName, ...]] = ("steps", "tokens", "cost", "seconds")
LimitScope = Literal["run", "turn", "chat", "user", "day"]
"""What the usage of a limit is summed over."""


class Limits(Struct, metaclass=EntryMeta, frozen=True, kw_only=True):
    """Limits of steps, tokens, cost and time. A limit that is None does not apply.

    They are compared with what was used before each model call.
    """

    steps: int | None = None
    """Maximum number of model answers."""
    tokens: int | None = None
    """Maximum tokens of all model calls: input, cached input and output."""
    cost: float | None = None
    """Maximum cost of all model calls in US dollars. It needs models with a known price."""
    seconds: float | None = None
    """Maximum seconds of work: answers of models and calls of tools. Waiting for people does not
    count."""

    def __post_init__(self) -> None:
        for name in ("steps", "tokens"):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < 1):
                raise ConfigError(
                    f"{name} is {value!r}: use a whole number, at least 1, or None for no limit"
                )
        for name in ("cost", "seconds"):
            value = getattr(self, name)
            if value is not None and (type(value) not in (int, float) or not _positive(value)):
                raise ConfigError(
                    f"{name} is {value!r}: use a number greater than 0, or None for no limit"
                )

    def __bool__(self) -> bool:
        """Whether any limit applies."""
        return any(getattr(self, name) is not None for name in LIMIT_NAMES)

    def without(self, others: Limits) -> Limits:
        """These limits, except those that the others have, too."""
        return _left({n: getattr(self, n) for n in LIMIT_NAMES if getattr(others, n) is None})

    def minus(self, *results: RunResult[Any]) -> Limits:
        """The rest of these limits after runs, for the next run that shares them.

        `limits=limits.minus(first, second)`. A run of which nothing is left calls no model.
        """
        used = sum(map(_totals_of, results), NOTHING_USED)
        maxima = {n: getattr(self, n) for n in LIMIT_NAMES if getattr(self, n) is not None}
        return _left({name: max(0, most - getattr(used, name)) for name, most in maxima.items()})


UNLIMITED: Final = Limits()


def _left(values: Mapping[str, float | None]) -> Limits:
    """Limits of which nothing may be left: 0, which is a mistake where a person writes it."""
    limits = Limits()
    for name, value in values.items():
        force_setattr(limits, name, value)
    return limits


def _totals_of(result: RunResult[Any]) -> Totals:
    summary = getattr(result, "summary", None)
    if summary is None:
        raise ConfigError(
            f"a {type(result).__name__} is not the result of a run: use limits.minus(result)"
        )
    usage = summary.usage
    return Totals(summary.steps, usage.context, usage.cost or 0.0, summary.seconds)


def _positive(value: float) -> bool:
    return isfinite(value) and value > 0


class Totals(Struct, frozen=True, gc=False, omit_defaults=True):
    """Sums of what was used, which limits are compared with."""

    steps: int = 0
    """Number of model answers."""
    tokens: int = 0
    """Tokens of all model calls: input, cached input and output."""
    cost: float = 0.0
    """Cost in US dollars of the calls with a known price."""
    seconds: float = 0.0
    """Seconds of work."""

    def __add__(self, other: Totals) -> Totals:
        return Totals(
            self.steps + other.steps,
            self.tokens + other.tokens,
            self.cost + other.cost,
            self.seconds + other.seconds,
        )


NOTHING_USED: Final = Totals()


class LimitReached(Struct, frozen=True, gc=False):
    """The limit that ended a turn: which one, how much was used, and how much was allowed."""

    name: LimitName
    scope: LimitScope
    """What the usage was summed over."""
    used: float
    """Amount that was used."""
    maximum: float
    """Amount that was allowed."""

    @property
    def sentence(self) -> str:
        """Which limit was reached, and how to continue: for people and models."""
        return f"{self.event} {self.remedy}"

    @property
    def event(self) -> str:
        """Which limit was reached, and how much was used."""
        if not self.maximum:
            return f"Stopped: nothing is left of the limit of {self.name}."
        used, maximum = _amount(self.name, self.used), _amount(self.name, self.maximum)
        unit = "" if self.name == "cost" else f" {self.name}"
        return f"Stopped: {_SUBJECTS[self.scope]} used {used} of {maximum}{unit}."

    @property
    def remedy(self) -> str:
        """How to continue."""
        return _REMEDIES[self.scope].format(name=self.name)


_SUBJECTS: Final[Mapping[LimitScope, str]] = {
    "run": "this run",
    "turn": "this turn",
    "chat": "this chat, with its child chats,",
    "user": "the owner of this chat",
    "day": "the owner of this chat today",
}
_REMEDIES: Final[Mapping[LimitScope, str]] = {
    "run": "To continue, start another run with its history, or raise limits.{name}.",
    "turn": "Continue to allow the same again, or raise limits.{name} of the agent.",
    "chat": "To continue, an administrator has to raise the budget of the chat.",
    "user": "To continue, an administrator has to raise the budget of the user.",
    "day": "Continue tomorrow, or ask an administrator to raise the daily budget.",
}


def _amount(name: LimitName, value: float) -> str:
    """An amount with its unit of money, or in whole numbers where it is one."""
    if name == "cost":
        return f"${value:,.2f}" if value >= 0.1 else f"${value:.2g}"
    return f"{value:,.1f}".removesuffix(".0")


def reached(limits: Limits, totals: Totals, scope: LimitScope = "turn") -> LimitReached | None:
    """The first limit that is used up, in the order of the fields; None if no limit is."""
    if limits.steps is not None and totals.steps >= limits.steps:
        return LimitReached("steps", scope, totals.steps, limits.steps)
    if limits.tokens is not None and totals.tokens >= limits.tokens:
        return LimitReached("tokens", scope, totals.tokens, limits.tokens)
    if limits.cost is not None and totals.cost >= limits.cost:
        return LimitReached("cost", scope, totals.cost, limits.cost)
    if limits.seconds is not None and totals.seconds >= limits.seconds:
        return LimitReached("seconds", scope, totals.seconds, limits.seconds)
    return None
