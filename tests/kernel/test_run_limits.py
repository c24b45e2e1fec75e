"""Limits of runs in memory: of a turn, by the agent, and of a whole run."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from holdfast import Agent, Limits, model, tool
from holdfast.errors import ConfigError, LimitExceeded
from holdfast.events import LimitReached, RunEnded
from holdfast.kernel.messages import dump, load
from holdfast.models import Fallback
from holdfast.options import ContextLimits, Policy
from holdfast.testing import ScriptedModel, call, fail, pause, usage
from tests.kernel.runs import events_of, kinds, later, look, model_of, only, outcome, scripted
from tests.kernel.toolkit import results_in

COSTLY: Any = [call("look"), usage(input=60, output=20, cache_read=20, cost=0.25)]
"""An answer of 100 tokens, for a quarter of a dollar."""


@tool(effect="pure")
async def work(seconds: float) -> str:
    """Work for a while."""
    await anyio.sleep(seconds)
    return "done"


def endless(**more: Any) -> Agent:
    """An agent that never gives a final answer."""
    return scripted([], look, default=COSTLY, **more)


@pytest.mark.parametrize(
    ("limits", "steps", "used"),
    [
        (Limits(steps=3), 3, LimitReached("steps", "turn", 3, 3)),
        (Limits(tokens=250), 3, LimitReached("tokens", "turn", 300, 250)),
        (Limits(cost=0.5), 2, LimitReached("cost", "turn", 0.5, 0.5)),
        (Limits(steps=9, tokens=200, cost=0.3), 2, LimitReached("tokens", "turn", 200, 200)),
    ],
    ids=["steps", "tokens", "cost", "several"],
)
async def test_a_turn_ends_before_the_first_call_after_its_limit(
    limits: Limits, steps: int, used: LimitReached
) -> None:
    agent = endless(limits=limits)
    result = await outcome(agent.run("?"))
    assert (result.reason, result.steps, result.limit) == ("limit", steps, used)
    assert kinds(result.history) == ["prompt", *["answer", "results"] * steps, "note"]
    assert result.history[-1].text == used.sentence


async def test_a_run_without_an_answer_raises_with_its_result() -> None:
    run = endless(limits=Limits(tokens=100)).run("?")
    with pytest.raises(LimitExceeded, match="used 100 of 100 tokens") as raised:
        await run
    error = raised.value
    assert error.result is run.ended_result
    assert error.limit == error.result.limit
    assert (error.result.usage.context, error.result.usage.cost) == (100, 0.25)


def test_a_run_without_an_event_loop_raises_too() -> None:
    with pytest.raises(LimitExceeded):
        endless(limits=Limits(steps=1)).run_sync("?")
    stream = endless(limits=Limits(steps=1)).stream_sync("?")
    assert only(RunEnded, list(stream))[0].reason == "limit"


async def test_the_last_event_names_the_limit() -> None:
    ended = only(RunEnded, await events_of(endless(limits=Limits(steps=1)).run("?")))[0]
    assert (ended.reason, ended.limit) == ("limit", LimitReached("steps", "turn", 1, 1))


async def test_an_agent_has_a_limit_of_a_hundred_steps() -> None:
    assert (await outcome(endless().run("?"))).steps == 100


async def test_an_answer_that_reaches_a_limit_is_a_normal_end() -> None:
    agent = scripted([["Done.", usage(input=500)]], limits=Limits(tokens=100))
    result = await agent.run("?")
    assert (result.reason, result.limit, result.text) == ("stop", None, "Done.")


async def test_seconds_are_those_of_answers_and_calls() -> None:
    script = [[call("work", seconds=4), pause(5)], call("work", seconds=2)]
    agent = scripted(script, work, default=call("work", seconds=1), limits=Limits(seconds=12))
    result = await outcome(agent.run("?"))
    assert result.limit == LimitReached("seconds", "turn", 12, 12)
    assert result.steps == 3


async def test_calls_in_parallel_count_once() -> None:
    both: Any = [call("work", seconds=4), call("work", seconds=4)]
    agent = scripted([both, both], work, default="Done.", limits=Limits(seconds=5))
    assert (await outcome(agent.run("?"))).limit == LimitReached("seconds", "turn", 8, 5)


async def test_a_turn_continues_without_a_prompt_and_with_its_limits_anew() -> None:
    agent = endless(limits=Limits(tokens=200))
    first = await outcome(agent.run("?"))
    stored = load(dump(first.history))
    second = await outcome(agent.run(history=stored))
    assert (first.steps, second.steps) == (2, 2)
    assert second.limit == LimitReached("tokens", "turn", 200, 200)
    asked = model_of(agent).requests[-1].messages
    assert [message.kind for message in asked].count("prompt") == 1


async def test_a_turn_that_was_cut_off_keeps_what_it_used() -> None:
    agent = endless(limits=Limits(steps=3))
    whole = await outcome(agent.run("?"))
    cut = whole.history[:-3]  # as if the process had died in the third step
    assert (await outcome(agent.run(history=cut))).steps == 1


async def test_steering_begins_a_turn_with_its_limits_anew() -> None:
    agent = scripted([], work, default=call("work", seconds=1), limits=Limits(steps=3))
    run = agent.run("?")
    later(2.5, lambda: run.steer("And this."))
    assert (await outcome(run)).steps == 6


async def test_the_limits_of_a_run_count_all_of_its_turns() -> None:
    agent = scripted([], work, default=call("work", seconds=1), limits=Limits(steps=3))
    run = agent.run("?", limits=Limits(steps=4))
    later(2.5, lambda: run.steer("And this."))
    result = await outcome(run)
    assert result.limit == LimitReached("steps", "run", 4, 4)
    assert "start another run with its history" in result.history[-1].text


async def test_a_limit_of_a_run_takes_precedence_over_that_of_the_agent() -> None:
    agent = endless(limits=Limits(steps=2, tokens=400))
    more = await outcome(agent.run("?", limits=Limits(steps=9)))
    assert more.limit == LimitReached("tokens", "turn", 400, 400)
    fewer = await outcome(agent.run("?", limits=Limits(steps=1)))
    assert fewer.limit == LimitReached("steps", "run", 1, 1)


async def test_the_tokens_of_a_run_include_failed_attempts_and_inner_agents() -> None:
    inner = scripted([["Yes.", usage(input=70)]], name="inner")
    failed: Any = ["Half", usage(input=50), fail(kind="overloaded")]
    agent = scripted(
        [failed, [call("inner", prompt="?"), usage(input=10)]], inner.as_tool(), default="Done."
    )
    run = agent.run("?", limits=Limits(tokens=75))
    assert (await outcome(run)).limit == LimitReached("tokens", "run", 80, 75)


async def test_the_seconds_of_a_run_are_those_of_the_clock() -> None:
    agent = scripted([fail(kind="overloaded")] * 2, look, default=call("look"))
    result = await outcome(agent.run("?", limits=Limits(seconds=0.001)))
    assert result.limit is not None
    assert (result.limit.name, result.limit.scope) == ("seconds", "run")


async def test_no_other_agent_is_started_after_a_limit() -> None:
    inner = scripted(["Yes."], name="inner")
    first: Any = [call("inner", prompt="?"), call("look"), usage(input=100)]
    agent = scripted([first], look, inner.as_tool(), limits=Limits(tokens=100))
    result = await outcome(agent.run("?"))
    found = {one.tool: one for one in results_in(result.history)}
    assert (found["inner"].outcome, found["look"].outcome) == ("refused", "ok")
    assert "no other agent is started now" in found["inner"].text
    assert model_of(inner).requests == []


async def test_an_inner_agent_that_reaches_its_limit_fails_the_call() -> None:
    inner = scripted([], look, default=call("look"), name="inner", limits=Limits(steps=2))
    agent = scripted([call("inner", prompt="?"), "Done."], inner.as_tool())
    (made,) = results_in((await agent.run("?")).history)
    assert made.outcome == "failed"
    assert made.text.startswith(
        "inner failed: no final answer. Stopped: this turn used 2 of 2 steps"
    )


# --- prices -------------------------------------------------------------------------------------


UNPRICED = ScriptedModel(priced=False, name="x:unknown")


@pytest.mark.parametrize(
    "refused",
    [
        lambda: Agent(model=UNPRICED, limits=Limits(cost=1)),
        lambda: Agent(model=Fallback([ScriptedModel(), UNPRICED]), limits=Limits(cost=1)),
        lambda: Agent(model=UNPRICED).replace(limits=Limits(cost=1)),
        lambda: Agent(model=UNPRICED).run("?", limits=Limits(cost=1)),
        lambda: Agent(
            model=ScriptedModel(),
            limits=Limits(cost=1),
            policy=Policy(context=ContextLimits(model=UNPRICED)),
        ),
        lambda: Agent(
            model=ScriptedModel(), tools=[Agent(model=UNPRICED, name="inner").as_tool()]
        ).run("?", limits=Limits(cost=1)),
        lambda: Agent(
            model=ScriptedModel(),
            tools=[Agent(model=UNPRICED, name="inner").as_tool()],
            limits=Limits(cost=1),
        ).run("?"),
        lambda: Agent(model="ollama:any", limits=Limits(cost=1)),
    ],
    ids=["agent", "fallback", "replace", "run", "summaries", "inner", "inner turn", "profile"],
)
def test_a_limit_of_cost_needs_models_with_a_known_price(refused: Any) -> None:
    with pytest.raises(ConfigError, match="limit tokens instead, or state its price"):
        refused()


def test_a_limit_of_cost_accepts_models_with_a_known_price() -> None:
    Agent(model="demo", limits=Limits(cost=1))
    Agent(model="anthropic:claude-sonnet-5", limits=Limits(cost=1))
    priced = {"price": {"input": 1.0, "output": 4.0}}
    Agent(model=model("ollama:any", profile=priced), limits=Limits(cost=1))


ANY_AGENT: Any = Agent


def test_limits_are_limits() -> None:
    with pytest.raises(ConfigError, match=r"limits is 3: use Limits\(…\)"):
        ANY_AGENT(model="demo", limits=3)
    with pytest.raises(ConfigError, match=r"limits is 3: use Limits\(…\)"):
        ANY_AGENT(model="demo").run("?", limits=3)
