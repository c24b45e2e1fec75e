"""An agent as a tool of another, in memory."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast import Agent, Limits, tool
from holdfast.errors import ConfigError
from holdfast.events import Action, ToolProgressed
from holdfast.testing import call, fail, hang, usage
from tests.kernel.runs import act, events_of, look, only, scripted
from tests.kernel.toolkit import results_in

INNER: Any = {"name": "researcher", "description": "Finds things out."}


async def test_an_agent_answers_a_call_of_another_agent() -> None:
    inner = scripted([call("look", what="fjord"), "A fjord."], look, **INNER)
    outer = scripted([call("researcher", prompt="What is it?"), "It is a fjord."], inner.as_tool())
    result = await outer.run("?")
    assert result.text == "It is a fjord."
    (made,) = results_in(result.history)
    assert (made.tool, made.text) == ("researcher", "A fjord.")
    assert outer.toolset["researcher"].description == "Finds things out."
    renamed = inner.as_tool("ask", "Ask.")
    assert (renamed.name, renamed.description) == ("ask", "Ask.")


async def test_tokens_of_the_inner_run_count_in_the_result_of_the_outer_run() -> None:
    inner = scripted([["Yes.", usage(input=5, output=7)]], **INNER)
    outer = scripted(
        [[call("researcher", prompt="?"), usage(input=1, output=2)], "Done."], inner.as_tool()
    )
    result = await outer.run("?")
    assert (result.summary.usage.input, result.summary.usage.output) == (6, 9)
    assert result.summary.steps == 3


async def test_tokens_of_an_inner_run_that_failed_count_too() -> None:
    inner = scripted([[call("look"), usage(input=5)], fail(kind="auth")], look, **INNER)
    outer = scripted([call("researcher", prompt="?"), "Done."], inner.as_tool())
    result = await outer.run("?")
    (made,) = results_in(result.history)
    assert made.outcome == "failed"
    assert made.text.startswith("researcher failed:")
    assert result.summary.usage.input == 5


async def test_people_see_which_tools_the_inner_agent_runs() -> None:
    inner = scripted([call("look"), "Done."], look, **INNER)
    outer = scripted([call("researcher", prompt="?"), "Done."], inner.as_tool())
    events = await events_of(outer.run("?"))
    assert [event.text for event in only(ToolProgressed, events)] == ["look"]


async def test_an_interrupt_ends_the_inner_run() -> None:
    cleaned = asyncio.Event()

    @tool
    async def slow() -> str:
        """Take long."""
        try:
            await asyncio.sleep(1_000)
        finally:
            cleaned.set()
        return "done"

    inner = scripted([call("slow")], slow, **INNER)
    outer = scripted([call("researcher", prompt="?")], inner.as_tool())
    run = outer.run("?")
    asyncio.get_running_loop().call_later(5, run.interrupt)
    result = await run
    assert result.reason == "interrupted"
    assert cleaned.is_set()


async def test_an_inner_model_that_hangs_is_interrupted_with_the_outer_run() -> None:
    outer = scripted([call("researcher", prompt="?")], scripted([hang()], **INNER).as_tool())
    run = outer.run("?")
    asyncio.get_running_loop().call_later(5, run.interrupt)
    assert (await run).reason == "interrupted"


@tool(approval="ask")
async def pay() -> str:
    """Pay."""
    return "paid"


async def test_an_approval_of_the_inner_agent_is_denied_unless_a_hook_answers_it() -> None:
    inner = scripted([call("pay"), "It was not paid."], pay, **INNER)
    outer = scripted([call("researcher", prompt="Pay."), "Sorry."], inner.as_tool())
    result = await outer.run("?")
    assert results_in(result.history)[0].text == "It was not paid."

    async def approve_all(action: Action) -> object:
        from holdfast import approve

        assert action.call.tool == "pay"
        return approve(action)

    inner = scripted([call("pay"), "Paid."], pay, **INNER)
    asked = inner.as_tool(on_action=approve_all)
    outer = scripted([call("researcher", prompt="Pay."), "Done."], asked)
    assert results_in((await outer.run("?")).history)[0].text == "Paid."


async def test_a_structured_output_is_the_result_of_the_call() -> None:
    inner = scripted(['{"n": 3}'], output=dict[str, int], **INNER)
    outer = scripted([call("researcher", prompt="?"), "Done."], inner.as_tool())
    assert results_in((await outer.run("?")).history)[0].text == '{"n":3}'


async def test_an_inner_run_without_a_final_answer_is_a_failed_call() -> None:
    inner = scripted([], look, default=call("look"), limits=Limits(steps=2), **INNER)
    outer = scripted([call("researcher", prompt="?"), "Done."], inner.as_tool())
    (made,) = results_in((await outer.run("?")).history)
    assert made.outcome == "failed"


async def test_agents_inside_each_other_have_a_limit() -> None:
    agent = scripted(["Deep."], name="a0")
    for level in range(1, 6):
        script = [call(agent.name, prompt="?"), f"Level {level}."]
        agent = scripted(script, agent.as_tool(), name=f"a{level}")
    result = await agent.run("?")
    assert result.text == "Level 5."
    tools = [agent.toolset["a4"].agents["a4"].toolset["a3"]]
    inner = tools[0].agents["a3"].toolset["a2"].agents["a2"]
    assert "already inside each other" in str(inner.model.requests[1].messages)


async def test_two_calls_of_one_answer_run_at_the_same_time() -> None:
    inner = scripted([call("look", seconds=10), call("look", seconds=10), "A", "B"], look, **INNER)
    both = [call("researcher", prompt="1"), call("researcher", prompt="2")]
    outer = scripted([both, "Done."], inner.as_tool())
    result = await outer.run("?")
    assert result.summary.seconds < 15


def test_two_agents_of_one_name_are_refused_when_they_meet() -> None:
    one, other = scripted(["1"], name="a"), scripted(["2"], act, name="a")
    outer = scripted(["?"], one.as_tool("one"), other.as_tool("other"), name="outer")
    with pytest.raises(ConfigError, match="two agents are named 'a'"):
        _ = outer.team
    assert list(scripted([], one.as_tool("x"), one.as_tool("y"), name="o").team) == ["o", "a"]


def test_a_description_is_text() -> None:
    with pytest.raises(ConfigError, match="description is 7: use text"):
        Agent(model=scripted([]).model, description=7)  # type: ignore[call-overload]
