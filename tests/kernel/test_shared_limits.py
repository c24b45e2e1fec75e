"""Limits of a run count the runs inside of its tools: agents that are tools, and runs by hand."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import anyio
import pytest

from holdfast import Agent, Limits, ToolContext, tool
from holdfast.errors import ConfigError, LimitExceeded
from holdfast.events import LimitReached
from holdfast.kernel.messages import dump, load
from holdfast.messages import Usage
from holdfast.models import Request
from holdfast.testing import ScriptedModel, call, fail, hang, pause, tool_context, usage
from tests.kernel.runs import kinds, look, model_of, outcome, scripted
from tests.kernel.toolkit import results_in

LOOKS: Any = [call("look"), usage(input=60, output=40, cost=0.25)]
"""An answer of 100 tokens, for a quarter of a dollar."""
ASKS: Any = call("inner", prompt="?")


def inner_agent(**more: Any) -> Agent:
    """An agent that never gives a final answer."""
    return scripted([], look, default=LOOKS, name="inner", **more)


@pytest.mark.parametrize(
    ("limits", "answers", "used"),
    [
        (Limits(steps=4), 3, (4, 4)),
        (Limits(tokens=150), 2, (200, 150)),
        (Limits(cost=0.5), 2, (0.5, 0.5)),
    ],
    ids=["steps", "tokens", "cost"],
)
@pytest.mark.parametrize("scope", ["run", "turn"])
async def test_a_limit_stops_the_agent_that_is_a_tool(
    limits: Limits, answers: int, used: tuple[float, float], scope: Any
) -> None:
    inner = inner_agent()
    outer = scripted([ASKS, "Never."], inner.as_tool())
    of_agent, of_run = (limits, None) if scope == "turn" else (Limits(), limits)
    result = await outcome(outer.replace(limits=of_agent).run("?", limits=of_run))
    assert result.reason == "limit"
    assert result.limit is not None
    assert (result.limit.scope, result.limit.used, result.limit.maximum) == (scope, *used)
    assert len(model_of(inner).requests) == answers
    assert len(model_of(outer).requests) == 1  # the limit is not a failure that its model answers
    assert kinds(result.history) == ["prompt", "answer", "results", "note"]
    (made,) = results_in(result.history)
    assert (made.outcome, made.steps) == ("failed", answers)
    assert (result.steps, result.usage.context) == (1 + answers, 100 * answers)


async def test_a_limit_of_an_inner_agent_is_answered_by_the_outer_one() -> None:
    inner = inner_agent(limits=Limits(steps=2))
    outer = scripted([ASKS, "Done."], inner.as_tool())
    result = await outer.run("?", limits=Limits(steps=5))
    assert (result.text, result.steps) == ("Done.", 4)


async def test_agents_inside_of_each_other_share_a_limit() -> None:
    innermost = inner_agent()
    middle = scripted([], innermost.as_tool(), default=ASKS, name="middle")
    outer = scripted([call("middle", prompt="?"), "Never."], middle.as_tool())
    result = await outcome(outer.run("?", limits=Limits(steps=6)))
    assert result.limit == LimitReached("steps", "run", 6, 6)
    assert len(model_of(innermost).requests) == 4
    assert len(model_of(middle).requests) == 1
    assert result.usage.context == 400


async def test_what_calls_used_in_a_turn_is_part_of_its_history() -> None:
    inner = scripted([], default=["Yes.", usage(input=100)], name="inner")
    outer = scripted([], inner.as_tool(), default=ASKS, limits=Limits(steps=4, tokens=1_000))
    whole = await outcome(outer.run("?"))
    assert (whole.limit, whole.steps) == (LimitReached("steps", "turn", 4, 4), 4)
    stored = load(dump(whole.history[:3]))  # as if the process had died after the first call
    assert stored[-1].usage == Usage(input=100)
    continued = await outcome(outer.run(history=stored))
    assert (continued.limit, continued.steps) == (whole.limit, 2)


async def test_calls_at_the_same_time_share_a_limit() -> None:
    inner = inner_agent()
    outer = scripted([[ASKS, ASKS], "Never."], inner.as_tool())
    result = await outcome(outer.run("?", limits=Limits(steps=5)))
    assert result.limit is not None
    assert 5 <= result.limit.used <= 6  # an answer in progress is not cut off
    assert len(model_of(outer).requests) == 1


# --- runs by hand -------------------------------------------------------------------------------


def by_hand(inner: Agent, **more: Any) -> Agent:
    """An agent with a tool that runs another agent."""

    @tool
    async def delegate(context: ToolContext) -> str:
        """Ask another agent."""
        return (await inner.run("?", within=context)).text

    return scripted([call("delegate")], delegate, default="Done.", **more)


async def test_a_run_within_a_call_counts_for_the_run_of_the_call() -> None:
    inner = scripted([call("look"), ["Yes.", usage(input=70)]], look, name="inner")
    result = await by_hand(inner).run("?")
    assert (result.text, result.steps, result.usage.input) == ("Done.", 4, 70)
    (made,) = results_in(result.history)
    assert (made.text, made.steps, made.usage) == ("Yes.", 2, Usage(input=70))


@pytest.mark.parametrize("limits", [{"run": Limits(steps=3)}, {"turn": Limits(steps=3)}])
async def test_a_run_within_a_call_is_stopped_by_the_limits_of_the_outer_one(
    limits: dict[str, Limits],
) -> None:
    inner = inner_agent()
    outer = by_hand(inner, limits=limits.get("turn", Limits()))
    result = await outcome(outer.run("?", limits=limits.get("run")))
    assert result.limit is not None
    assert (result.limit.used, result.limit.maximum) == (3, 3)
    assert (len(model_of(inner).requests), len(model_of(outer).requests)) == (2, 1)


async def test_a_run_within_a_call_has_limits_of_its_own_too() -> None:
    inner = inner_agent()

    @tool
    async def delegate(context: ToolContext) -> str:
        """Ask another agent."""
        try:
            await inner.run("?", within=context, limits=Limits(steps=2))
        except LimitExceeded as error:
            return f"no answer: {error.limit.event}"
        return "an answer"

    outer = scripted([call("delegate"), "Done."], delegate)
    result = await outer.run("?", limits=Limits(steps=9))
    assert (result.text, result.steps) == ("Done.", 4)
    assert "this run used 2 of 2 steps" in results_in(result.history)[0].text


async def test_a_tool_in_a_thread_runs_an_agent_within_its_call() -> None:
    inner = inner_agent()

    @tool
    def delegate(context: ToolContext) -> str:
        """Ask another agent."""
        return inner.run_sync("?", within=context).text

    outer = scripted([call("delegate"), "Never."], delegate)
    result = await outcome(outer.run("?", limits=Limits(steps=3)))
    assert result.limit == LimitReached("steps", "run", 3, 3)
    assert (len(model_of(inner).requests), result.usage.context) == (2, 200)


def test_an_interrupt_reaches_a_run_in_the_thread_of_a_call() -> None:
    asked, ended = threading.Event(), threading.Event()
    reasons: list[str] = []

    def answer(request: Request) -> Any:
        asked.set()
        return hang()

    inner = Agent(model=ScriptedModel([answer]), name="inner")

    @tool
    def delegate(context: ToolContext) -> str:
        """Ask another agent."""
        reasons.append(inner.run_sync("?", within=context).reason)
        ended.set()
        return "an answer"

    async def main() -> None:
        run = Agent(model=ScriptedModel([call("delegate"), "Never."]), tools=[delegate]).run("?")
        async with run:
            assert await anyio.to_thread.run_sync(asked.wait, 5)
            run.interrupt()
            assert (await run).reason == "interrupted"
        assert await anyio.to_thread.run_sync(ended.wait, 5)
        assert reasons == ["interrupted"]

    asyncio.run(main())


async def test_a_run_within_a_call_of_a_test_has_no_outer_run() -> None:
    inner = scripted(["Yes."], name="inner")
    assert (await inner.run("?", within=tool_context())).text == "Yes."


def test_a_run_is_within_a_call() -> None:
    agent: Any = Agent(model=ScriptedModel(["Yes."]))
    with pytest.raises(
        ConfigError, match="within is a RunResult: pass the ToolContext of the call"
    ):
        agent.run("?", within=agent.run_sync("?"))


async def test_usage_of_a_call_whose_answer_failed_counts_for_the_run() -> None:
    @tool(effect="pure")
    async def embed(context: ToolContext) -> str:
        """Charge a hundred tokens."""
        context.charge(Usage(input=100))
        return "done"

    failed: Any = [call("embed"), pause(1), fail(kind="overloaded")]
    result = await scripted([failed, "Done."], embed).run("?")
    assert (result.text, result.usage) == ("Done.", Usage(input=100))
    assert results_in(result.history) == []


# --- runs one after the other -------------------------------------------------------------------


async def test_two_runs_share_the_limits_of_a_program() -> None:
    limits = Limits(steps=5, tokens=1_000, cost=2.0, seconds=60)
    first = await scripted([LOOKS, LOOKS, "Done."], look).run("?", limits=limits)
    left = limits.minus(first)
    assert (left.steps, left.tokens, left.cost) == (2, 800, 1.5)
    assert left.seconds == pytest.approx(60 - first.summary.seconds)
    second = await outcome(inner_agent().run("?", limits=left))
    assert second.limit == LimitReached("steps", "run", 2, 2)
    assert limits.minus(first, second) == left.minus(second)


async def test_a_run_with_nothing_left_calls_no_model() -> None:
    limits = Limits(steps=2, tokens=150)
    first = await outcome(inner_agent().run("?", limits=limits))
    left = limits.minus(first)
    assert (left.steps, left.tokens, left.cost, left.seconds) == (0, 0, None, None)
    assert left
    agent = scripted(["Never."])
    with pytest.raises(
        LimitExceeded, match=r"Stopped: nothing is left of the limit of steps\."
    ) as raised:
        await agent.run("?", limits=left)
    assert raised.value.limit == LimitReached("steps", "run", 0, 0)
    assert model_of(agent).requests == []
    again = await outcome(agent.replace(limits=left).run("?", limits=Limits(seconds=60)))
    assert again.limit == LimitReached("steps", "turn", 0, 0)


def test_only_what_is_left_may_be_nothing() -> None:
    with pytest.raises(ConfigError, match="steps is 0: use a whole number, at least 1"):
        Limits(steps=0)
    wrong: Any = Usage()
    with pytest.raises(
        ConfigError, match=r"a Usage is not the result of a run: use limits\.minus\(result\)"
    ):
        Limits(steps=1).minus(wrong)
