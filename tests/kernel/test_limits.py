"""Limits: validation, comparison with totals, and the sentence of a limit that was reached."""

from __future__ import annotations

from math import inf, nan

import pytest

from holdfast import Limits
from holdfast.errors import ConfigError
from holdfast.kernel.limits import (
    LIMIT_NAMES,
    LimitName,
    LimitReached,
    LimitScope,
    Totals,
    reached,
)
from holdfast.kernel.messages import decode, encode

NEARLY = Totals(steps=9, tokens=99, cost=0.49, seconds=59.9)
ALL = Limits(steps=10, tokens=100, cost=0.5, seconds=60)


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "5", nan])
@pytest.mark.parametrize("name", ["steps", "tokens"])
def test_a_limit_that_counts_is_a_whole_number_of_at_least_one(name: str, value: object) -> None:
    with pytest.raises(ConfigError, match=rf"{name} is .*: use a whole number, at least 1"):
        Limits(**{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [0, -0.1, True, "5", nan, inf])
@pytest.mark.parametrize("name", ["cost", "seconds"])
def test_a_limit_of_money_or_time_is_a_finite_number_greater_than_zero(
    name: str, value: object
) -> None:
    with pytest.raises(ConfigError, match=rf"{name} is .*: use a number greater than 0"):
        Limits(**{name: value})  # type: ignore[arg-type]


def test_limits_that_are_not_given_do_not_apply() -> None:
    assert not Limits()
    assert all(Limits(**{name: 1}) for name in LIMIT_NAMES)
    assert reached(Limits(), Totals(10**9, 10**12, 1e6, 1e9)) is None


@pytest.mark.parametrize("name", LIMIT_NAMES)
def test_a_limit_is_reached_when_all_of_it_is_used(name: LimitName) -> None:
    maximum = getattr(ALL, name)
    alone = Limits(**{name: maximum})
    assert reached(alone, NEARLY) is None
    used = Totals(**{name: maximum})
    assert reached(alone, used, "run") == LimitReached(name, "run", maximum, maximum)
    assert reached(ALL, used) == LimitReached(name, "turn", maximum, maximum)


def test_totals_are_added_field_by_field() -> None:
    assert Totals(1, 2, 0.25, 4.0) + Totals(10, 20, 0.5, 40.0) == Totals(11, 22, 0.75, 44.0)


@pytest.mark.parametrize(
    ("limit", "begin"),
    [
        (LimitReached("steps", "turn", 100, 100), "Stopped: this turn used 100 of 100 steps. "),
        (
            LimitReached("tokens", "run", 120_000, 100_000),
            "Stopped: this run used 120,000 of 100,000 tokens. ",
        ),
        (LimitReached("cost", "turn", 1.5, 1.0), "Stopped: this turn used $1.50 of $1.00. "),
        (
            LimitReached("cost", "turn", 0.00123, 0.001),
            "Stopped: this turn used $0.0012 of $0.001. ",
        ),
        (
            LimitReached("seconds", "turn", 61.25, 60),
            "Stopped: this turn used 61.2 of 60 seconds. ",
        ),
        (
            LimitReached("tokens", "chat", 5, 4),
            "Stopped: this chat, with its child chats, used 5 of 4 tokens. ",
        ),
    ],
)
def test_the_sentence_states_who_used_how_much_of_what(limit: LimitReached, begin: str) -> None:
    assert limit.sentence.startswith(begin)


@pytest.mark.parametrize("scope", ["run", "turn", "chat", "user", "day"])
def test_the_sentence_of_every_scope_ends_with_how_to_continue(scope: LimitScope) -> None:
    limit = LimitReached("cost", scope, 2.0, 1.0)
    assert limit.sentence.endswith(limit.remedy)
    assert "ontinue" in limit.remedy
    assert "{" not in limit.remedy


def test_a_reached_limit_survives_json() -> None:
    limit = LimitReached("cost", "day", 2.5, 1.0)
    assert decode(encode(limit), LimitReached) == limit
