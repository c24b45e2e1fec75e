"""Required calls: for which answers of a turn, and what an agent refuses."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import Limits
from holdfast.errors import ConfigError
from holdfast.models import ProviderTool, Settings
from holdfast.testing import call, fail
from tests.kernel.runs import act, look, outcome, requests_of, scripted


def choices(agent: Any) -> list[str | None]:
    return [request.settings.tool_choice for request in requests_of(agent)]


async def test_a_call_is_required_of_the_first_answer_of_each_turn_only() -> None:
    agent = scripted(
        [call("look"), call("act"), "Done.", call("look"), "Done."],
        look,
        act,
        settings=Settings(tool_choice="required", temperature=0.5),
    )
    first = await agent.run("?")
    await agent.run("And?", history=first.history)
    assert choices(agent) == ["required", None, None, "required", None]
    assert {request.settings.temperature for request in requests_of(agent)} == {0.5}


async def test_a_failed_attempt_does_not_end_the_requirement() -> None:
    settings = Settings(tool_choice="act")
    agent = scripted([fail(kind="overloaded"), call("act"), "Done."], act, settings=settings)
    await agent.run("?")
    assert choices(agent) == ["act", "act", None]


async def test_a_call_may_be_required_of_every_answer() -> None:
    settings = Settings(tool_choice="required", tool_choice_for="every_answer")
    agent = scripted([], look, default=call("look"), settings=settings, limits=Limits(steps=4))
    result = await outcome(agent.run("?"))
    assert result.reason == "limit"
    assert choices(agent) == ["required"] * 4


async def test_no_tool_choice_is_left_in_place_for_every_answer() -> None:
    agent = scripted([call("look"), "Done."], look, settings=Settings(tool_choice="none"))
    await agent.run("?")
    assert choices(agent) == ["none", "none"]


async def test_a_tool_that_is_not_active_is_not_required() -> None:
    agent = scripted(
        ["Done."], look, act, settings=Settings(tool_choice="act"), active=lambda _: ["look"]
    )
    await agent.run("?")
    assert choices(agent) == [None]


def test_an_agent_refuses_a_choice_that_no_tool_can_meet() -> None:
    with pytest.raises(ConfigError, match=r"no tool has this name: use .* or one of look, act"):
        scripted([], look, act, settings=Settings(tool_choice="dance"))
    with pytest.raises(ConfigError, match="the agent has no tools"):
        scripted([], settings=Settings(tool_choice="required"))
    found = [ProviderTool("web_search")]
    scripted([], provider_tools=found, settings=Settings(tool_choice="web_search"))


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"stop": "END"}, "use a list of texts, even for one"),
        ({"stop": [" "]}, "not only spaces"),
        ({"seed": 1.5}, "seed is 1.5: use a whole number"),
        ({"tool_choice": ["look"]}, "use 'auto', 'none', 'required' or a tool's name"),
        ({"tool_choice_for": "ever"}, "use 'first_answer' or 'every_answer'"),
        ({"parallel_tool_calls": "no"}, "use True, False or None"),
        ({"options": 7}, "options is 7"),
    ],
)
def test_settings_of_the_wrong_form_are_refused(settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        Settings(**settings)
