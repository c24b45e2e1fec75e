"""What is known about a model, and what follows from it."""

from __future__ import annotations

from typing import Any, Final

import pytest

from holdfast.kernel.messages import Usage
from holdfast.kernel.model import EFFORTS, Effort
from holdfast.providers.profile import UNKNOWN, Price, Profile


@pytest.mark.parametrize(
    ("efforts", "wanted", "asked"),
    [
        (("low", "medium", "high"), "medium", "medium"),
        (("low", "medium", "high"), "max", "high"),
        (("low", "medium", "high"), "minimal", "low"),
        (("low", "medium", "high"), "none", "low"),
        (("none", "low", "high"), "medium", "low"),
        (("none", "low", "high"), "none", "none"),
        (("low", "medium", "high"), None, None),
        ((), "high", None),
        (None, "xhigh", "xhigh"),
    ],
)
def test_the_effort_asked_for_is_the_nearest_that_the_model_has(
    efforts: tuple[Effort, ...] | None, wanted: Effort | None, asked: Effort | None
) -> None:
    assert Profile(efforts=efforts).effort(wanted) == asked


@pytest.mark.parametrize("wanted", EFFORTS)
def test_a_model_that_nobody_knows_is_asked_for_what_was_wanted(wanted: Effort) -> None:
    assert UNKNOWN.effort(wanted) == wanted


@pytest.mark.parametrize(
    ("sampling", "effort", "taken"),
    [
        (True, "high", True),
        (False, None, False),
        (False, "none", False),
        ("without effort", None, True),
        ("without effort", "none", True),
        ("without effort", "low", False),
    ],
)
def test_a_temperature_may_depend_on_the_effort(
    sampling: Any, effort: Effort | None, taken: bool
) -> None:
    assert Profile(sampling=sampling).samples(effort) is taken


def test_a_price_counts_each_kind_of_token_once() -> None:
    price = Price(3.0, 15.0, 0.3, 3.75)
    usage = Usage(input=1_000, output=2_000, reasoning=500, cache_read=10_000, cache_write=4_000)
    assert price.of(usage) == pytest.approx(0.003 + 0.03 + 0.003 + 0.015)


@pytest.mark.parametrize(
    ("price", "cost"),
    [
        (Price(2, 8, cache_write=3, cache_write_1h=5), 0.25 * 3 + 0.75 * 5),
        (Price(2, 8, cache_write=3), 3),
        (Price(2, 8), 2),
    ],
)
def test_what_a_cache_keeps_for_an_hour_costs_as_other_writes_unless_it_has_its_own_price(
    price: Price, cost: float
) -> None:
    usage = Usage(cache_write=1_000_000)
    assert price.of(usage, for_an_hour=750_000) == pytest.approx(cost)


TIERED: Final = Price(1, 10, 0.1, 1.25, 2, long=Price(2, 15, 0.2, 2.5, 4, above=200_000))


@pytest.mark.parametrize(
    ("usage", "cost"),
    [
        (Usage(input=200_000, output=100_000), 0.2 + 1),
        (Usage(input=200_001, output=100_000), 0.400002 + 1.5),
        (Usage(input=100_000, cache_read=100_000, output=900_000), 0.1 + 0.01 + 9),
        (Usage(input=100_000, cache_read=100_000, cache_write=1), 0.2 + 0.02 + 0.0000025),
    ],
)
def test_a_long_prompt_makes_all_of_its_answer_cost_more(usage: Usage, cost: float) -> None:
    assert TIERED.of(usage) == pytest.approx(cost)


def test_what_a_cache_keeps_for_an_hour_costs_more_in_a_long_prompt_too() -> None:
    usage = Usage(cache_write=300_000)
    assert TIERED.of(usage, for_an_hour=100_000) == pytest.approx(0.2 * 2.5 + 0.1 * 4)


def test_a_price_may_rise_more_than_once() -> None:
    price = Price(1, 1, long=Price(2, 2, above=10, long=Price(3, 3, above=20)))
    assert [price.of(Usage(n)) * 1_000_000 / n for n in (10, 11, 20, 21)] == pytest.approx(
        [1, 2, 2, 3]
    )


def test_cached_input_without_a_price_of_its_own_costs_as_much_as_other_input() -> None:
    assert Price(2.0, 8.0).of(Usage(cache_read=1_000_000)) == pytest.approx(2.0)
