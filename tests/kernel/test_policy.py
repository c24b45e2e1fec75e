from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct, structs

import holdfast
from holdfast.errors import ConfigError
from holdfast.kernel.policy import max_result
from holdfast.options import Calls, ContextLimits, Policy, Retry, Stream, Wording
from holdfast.testing import ScriptedModel

GROUPS: Final[tuple[type[Struct], ...]] = (Retry, Stream, Calls, ContextLimits, Wording, Policy)
PACKAGE: Final = Path(holdfast.__file__).parent

LEAST: Final[list[tuple[type[Struct], str, float]]] = [
    (Retry, "attempts", 1),
    (Retry, "first_delay", 0),
    (Retry, "max_delay", 0),
    (Retry, "max_retry_after", 0),
    (Stream, "max_bytes", 1),
    (Stream, "max_events", 1),
    (Calls, "concurrency", 1),
    (Calls, "failures", 1),
    (Calls, "cooldown", 1),
    (Calls, "grace", 0),
    (Calls, "max_arguments", 1),
    (Calls, "max_result", 256),
    (Calls, "progress_length", 1),
    (ContextLimits, "window", 1_000),
    (ContextLimits, "threshold", 1),
    (ContextLimits, "keep", 0),
    (ContextLimits, "summary_attempts", 1),
    (ContextLimits, "summary_tokens", 256),
    (ContextLimits, "context_tokens", 0),
    (ContextLimits, "keep_results", 0),
    (ContextLimits, "relief", 1),
    (ContextLimits, "trim_to", 1),
    (Policy, "recoveries", 0),
    (Policy, "repairs", 0),
    (Policy, "buffer", 1),
]
"""The smallest value that each number may have."""
MOST: Final[list[tuple[type[Struct], str, float]]] = [
    (ContextLimits, "threshold", 100),
    (ContextLimits, "relief", 100),
    (ContextLimits, "trim_to", 4_000),
]
ABOVE_ZERO: Final[list[tuple[type[Struct], str]]] = [
    (Stream, "first_event"),
    (Stream, "between_events"),
    (Stream, "without_content"),
    (Stream, "closing"),
    (Policy, "guard_timeout"),
    (Policy, "validate_timeout"),
    (Policy, "instructions_timeout"),
    (Policy, "deps_timeout"),
]


def constants() -> Iterator[tuple[type[Struct], str, Any]]:
    """Every constant of every group, with its default."""
    for group in GROUPS:
        for name in group.__struct_fields__:
            default = getattr(group(), name)
            if not isinstance(default, Struct):
                yield group, name, default


NUMBERS: Final = [
    (group, name)
    for group, name, default in constants()
    if isinstance(default, (int, float)) or name in ("window", "max_result")
]


# --- What is refused ----------------------------------------------------------------------------


def test_every_number_has_a_check() -> None:
    """One that is missing here was added without a limit, or without a test of it."""
    checked = {(group, name) for group, name, _ in LEAST} | set(ABOVE_ZERO)
    checked.add((ContextLimits, "trim_over"))  # not below trim_to
    assert checked == set(NUMBERS)


@pytest.mark.parametrize(("group", "name", "least"), LEAST)
def test_the_smallest_value_is_taken_and_the_next_smaller_refused(
    group: type[Struct], name: str, least: float
) -> None:
    assert getattr(group(**{name: least, **beside(name)}), name) == least
    with pytest.raises(ConfigError, match=name):
        group(**{name: least - 1, **beside(name)})


@pytest.mark.parametrize(("group", "name", "most"), MOST)
def test_the_largest_value_is_taken_and_the_next_larger_refused(
    group: type[Struct], name: str, most: float
) -> None:
    assert getattr(group(**{name: most}), name) == most
    with pytest.raises(ConfigError, match=name):
        group(**{name: most + 1})


def beside(name: str) -> dict[str, int]:
    """What else must be set for a value to make sense."""
    return {"keep": 0} if name == "threshold" else {}


@pytest.mark.parametrize(("group", "name"), ABOVE_ZERO)
def test_a_time_that_is_no_time_is_refused(group: type[Struct], name: str) -> None:
    assert getattr(group(**{name: 0.001}), name) == 0.001
    for value in (0, -1):
        with pytest.raises(ConfigError, match=name):
            group(**{name: value})


@pytest.mark.parametrize(("group", "name"), NUMBERS)
def test_what_is_no_number_is_refused_by_name(group: type[Struct], name: str) -> None:
    wrong: tuple[object, ...] = ("3", [], math.nan, {})
    for value in wrong:
        with pytest.raises(ConfigError, match=name):
            group(**{name: value})


@pytest.mark.parametrize(("group", "name"), NUMBERS)
def test_a_refusal_says_what_was_given_and_what_to_use(group: type[Struct], name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        group(**{name: -7})
    assert name in str(caught.value)
    assert "-7" in str(caught.value)


@given(keep=st.integers(-5, 110), threshold=st.integers(-5, 110))
def test_what_is_kept_is_less_than_what_triggers_a_compaction(keep: int, threshold: int) -> None:
    if 1 <= threshold <= 100 and 0 <= keep < threshold:
        assert ContextLimits(keep=keep, threshold=threshold).keep == keep
    else:
        with pytest.raises(ConfigError):
            ContextLimits(keep=keep, threshold=threshold)


def test_results_are_not_shortened_to_more_than_they_had() -> None:
    assert ContextLimits(trim_over=500, trim_to=500).trim_to == 500
    with pytest.raises(ConfigError, match="trim_to"):
        ContextLimits(trim_over=500, trim_to=501)


@pytest.mark.parametrize("text", ["", "  \n"])
def test_a_recovery_that_says_nothing_is_refused(text: str) -> None:
    """Providers refuse an empty message; to switch recoveries off there is a number."""
    with pytest.raises(ConfigError, match="recoveries"):
        Wording(recovery=text)


def test_a_repair_that_says_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="repairs=0"):
        Wording(repair=" ")


def test_a_marker_that_says_nothing_is_how_it_is_switched_off() -> None:
    assert Wording(interrupted_answer="", interrupted_tools="").interrupted_answer == ""


@pytest.mark.parametrize("group", GROUPS)
def test_a_constant_that_does_not_exist_is_refused(group: type[Struct]) -> None:
    with pytest.raises(TypeError):
        group(no_such_thing=1)


# --- What a policy is ---------------------------------------------------------------------------


@pytest.mark.parametrize("group", GROUPS)
def test_a_policy_is_an_immutable_value(group: type[Struct]) -> None:
    assert group() == group()
    name = group.__struct_fields__[0]
    with pytest.raises(AttributeError):
        setattr(group(), name, 1)


def test_the_defaults_are_those_of_the_design() -> None:
    policy = Policy()
    assert policy.retry == Retry(attempts=10, first_delay=1, max_delay=60, max_retry_after=300)
    assert policy.stream.first_event == 60
    assert policy.stream.between_events == 600
    assert policy.stream.without_content == 1_800
    assert policy.stream.max_bytes == 32 * 1024 * 1024
    assert (policy.calls.concurrency, policy.calls.failures, policy.calls.grace) == (8, 3, 5)
    assert policy.calls.cooldown == 3
    assert policy.context.threshold == 70
    assert policy.recoveries == 3


def test_a_variant_is_checked_like_the_original() -> None:
    with pytest.raises(ConfigError, match="attempts"):
        structs.replace(Retry(), attempts=0)


def test_a_policy_may_name_a_model_for_summaries() -> None:
    model = ScriptedModel(window=9_000)
    assert ContextLimits(model=model).model is model


# --- Nothing is there for show ------------------------------------------------------------------


def test_every_constant_is_read_somewhere() -> None:
    read: set[str] = set()
    for path in PACKAGE.rglob("*.py"):
        if path.name != "policy.py":
            tree = ast.parse(path.read_text())
            read |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert {name for _, name, _ in constants()} - read == set()


# --- How long a result may be -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("window", "expected"),
    [(None, 64 * 1024), (1_000, 16 * 1024), (16 * 1024, 16 * 1024), (200_000, 200_000)],
)
def test_a_result_may_have_about_a_third_of_the_window(window: int | None, expected: int) -> None:
    assert max_result(window) == expected
