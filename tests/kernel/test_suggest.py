"""Suggestions for misspelled names."""

from __future__ import annotations

import pytest

from holdfast.kernel.suggest import did_you_mean, nearest, no_agent, unknown_name


def test_the_nearest_name_is_suggested_as_it_is_written() -> None:
    assert nearest("suport", ["billing", "Support"]) == "Support"
    assert did_you_mean("BILING", ["billing", "Support"]) == ": did you mean billing?"


def test_a_name_that_is_unlike_all_others_has_no_suggestion() -> None:
    assert nearest("xyz", ["billing"]) is None
    assert did_you_mean("xyz", ["billing"]) == ""
    assert unknown_name("xyz", ["billing", "support"]) == ": use one of billing, support"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("suport", "'suport': did you mean support? (agents: billing, support)"),
        ("xyz", "'xyz': use one of billing, support"),
        (3, "3: use one of billing, support"),
    ],
)
def test_an_agent_that_does_not_exist_is_answered_with_those_that_do(
    name: object, message: str
) -> None:
    assert no_agent(name, ["billing", "support"]) == f"no agent is named {message}"
