"""Instructions that functions write: called once in each turn, and committed with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import anyio
import pytest

from holdfast import Agent, Limits, handoff
from holdfast.errors import ConfigError
from holdfast.hooks import Context
from holdfast.kernel.events import Retrying, StepStarted
from holdfast.messages import Message, dump, load
from holdfast.models import Block, DynamicBlock, Request
from holdfast.options import Policy, Retry
from holdfast.testing import call, fail, pause
from tests.kernel.long_turns import POLICY, TOOLS, LongTurn, asks_for_summary
from tests.kernel.runs import (
    act,
    events_of,
    kinds,
    later,
    look,
    now,
    only,
    outcome,
    requests_of,
    scripted,
    texts,
)


def counting() -> Callable[[Context], str]:
    """A function whose result is never the same twice."""
    times = 0

    def number(context: Context) -> str:
        nonlocal times
        times += 1
        return f"Evaluation {times}."

    return number


def systems(requests: Sequence[Request]) -> list[str]:
    return [" ".join(block.text for block in request.system) for request in requests]


async def test_a_function_is_called_once_in_a_turn_and_its_result_is_committed() -> None:
    agent = scripted([call("look"), "Done.", "Again."], look, instructions=counting())
    first = await agent.run("Go.")
    assert kinds(first.history) == ["prompt", "instructions", "answer", "results", "answer"]
    evaluated = first.history[1]
    assert (evaluated.text, evaluated.role, evaluated.visibility) == (
        "Evaluation 1.",
        "system",
        "model",
    )
    second = await agent.run("More.", history=first.history)
    assert kinds(second.new) == ["prompt", "instructions", "answer"]
    requests = requests_of(agent)
    assert systems(requests) == ["Evaluation 1.", "Evaluation 1.", "Evaluation 2."]
    assert all("instructions" not in kinds(request.messages) for request in requests)


async def test_an_equal_evaluation_adds_nothing_and_keeps_the_prefix() -> None:
    called: list[int] = []

    async def constant(context: Context) -> str:
        called.append(len(context.history))
        await anyio.sleep(1)
        return "Be brief."

    agent = scripted(["One.", "Two."], look, instructions=["You help.", constant])
    first = await agent.run("1")
    second = await agent.run("2", history=first.history)
    assert called == [1, 4]
    assert kinds(second.history) == ["prompt", "instructions", "answer", "prompt", "answer"]
    before, after = requests_of(agent)
    assert (before.system, before.tools) == (after.system, after.tools)
    assert before.cache_key == after.cache_key
    assert after.messages[: len(before.messages)] == before.messages


async def test_text_blocks_and_functions_keep_their_order_and_their_marks() -> None:
    def several(context: Context) -> list[str | Block]:
        return ["a", Block("b", cache=True), " ", "c"]

    async def nothing(context: Context) -> None:
        return None

    agent = scripted(
        ["Yes."],
        instructions=["1", DynamicBlock(several, cache=True), nothing, Block("2", cache=True)],
    )
    await agent.run("Go.")
    assert requests_of(agent)[0].system == (
        Block("1"),
        Block("a"),
        Block("b", cache=True),
        Block("c", cache=True),
        Block("2", cache=True),
    )


@pytest.mark.parametrize(
    ("given", "marks"),
    [
        (lambda context: "x", [True]),
        (["1", "2", lambda context: "x", "3"], [False, True, False, True]),
        ([lambda context: "x", "1"], [False, True]),
        ([Block("1", cache=True), lambda context: "x"], [True, False]),
        ([Block("1"), "2"], [False, False]),
    ],
    ids=["alone", "between", "first", "marked", "text"],
)
async def test_without_a_mark_the_text_before_the_first_function_and_the_end_are_cached(
    given: Any, marks: list[bool]
) -> None:
    agent = scripted(["Yes."], instructions=given)
    await agent.run("Go.")
    assert [block.cache for block in requests_of(agent)[0].system] == marks


async def test_a_later_attempt_and_a_later_run_of_the_turn_have_the_same_instructions() -> None:
    agent = scripted([fail(status=529), fail(status=401), "Done."], look, instructions=counting())
    failed = await outcome(agent.run("Go."))
    assert failed.failure is not None
    done = await agent.run(history=load(dump(failed.history)))
    assert systems(requests_of(agent)) == ["Evaluation 1."] * 3
    assert texts(done.history, "instructions") == ["Evaluation 1."]


async def test_a_steering_message_starts_a_turn_with_its_own_instructions() -> None:
    agent = scripted([[pause(5), call("look")], "One.", "Two."], look, instructions=counting())
    run = agent.run("Go.")
    later(2, lambda: run.steer("Rather this."))
    await run
    assert systems(requests_of(agent)) == ["Evaluation 1.", "Evaluation 2."]


async def test_a_function_that_raises_is_called_again() -> None:
    times = 0

    async def unreliable(context: Context) -> str:
        nonlocal times
        times += 1
        if times < 3:
            raise OSError("the database is away")
        return "Now."

    agent = scripted(["Done."], look, instructions=unreliable)
    events = await events_of(agent.run("Go."))
    retries = only(Retrying, events)
    assert [(retry.attempt, retry.kind) for retry in retries] == [(1, "prepare"), (2, "prepare")]
    assert "unreliable" in retries[0].detail
    assert "the database is away" in retries[0].detail
    assert systems(requests_of(agent)) == ["Now."]


async def test_a_function_that_takes_too_long_fails_the_turn_in_the_end() -> None:
    async def forever(context: Context) -> str:
        await anyio.sleep_forever()
        return ""

    policy = Policy(instructions_timeout=10, retry=Retry(attempts=2, first_delay=0))
    agent = scripted(["Never."], look, instructions=forever, policy=policy)
    began = now()
    result = await outcome(agent.run("Go."))
    assert result.failure is not None
    assert result.failure.kind == "prepare"
    assert "longer than 10 s" in result.failure.detail
    assert now() - began == pytest.approx(20)
    assert kinds(result.history) == ["prompt"]


async def test_an_interrupt_ends_a_function_of_the_instructions() -> None:
    ended: list[bool] = []

    async def forever(context: Context) -> str:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append(True)
        return ""

    agent = scripted(["Never."], look, instructions=forever)
    run = agent.run("Go.")
    later(2, run.interrupt)
    result = await run
    assert (result.reason, kinds(result.history)) == ("interrupted", ["prompt", "marker"])
    assert ended == [True]
    assert requests_of(agent) == []


@pytest.mark.parametrize("returned", [3, [3], b"x", {"a": 1}])
async def test_a_function_that_returns_something_else_is_a_mistake(returned: Any) -> None:
    agent = scripted(["Never."], look, instructions=lambda context: returned)
    result = await outcome(agent.run("Go."))
    assert result.failure is not None
    assert result.failure.kind == "config"
    assert "return text" in result.failure.detail


@pytest.mark.parametrize("given", [3, [3], str, [DynamicBlock("text")], None])  # type: ignore[arg-type]
def test_instructions_of_another_kind_are_refused_when_the_agent_is_built(given: Any) -> None:
    with pytest.raises(ConfigError, match="use text, a function, or a list"):
        scripted([], instructions=given)


async def test_a_turn_that_began_without_functions_is_told_from_its_next_step_on() -> None:
    before = await scripted([call("act"), "Done."], act).run("Go.")
    history = before.history[:2]
    agent = scripted(["Done."], act, instructions=[counting(), counting()])
    result = await agent.run(history=history)
    assert kinds(result.history)[-2:] == ["instructions", "answer"]
    other = scripted(["Done."], act, instructions=counting())
    again = await other.run(history=result.history[:-1])
    assert systems(requests_of(other)) == ["Evaluation 1."]
    assert kinds(again.new) == ["instructions", "answer"]


async def test_compaction_keeps_the_newest_instructions_and_does_not_summarize_them() -> None:
    turn = LongTurn(100)
    model = turn.model()
    told = "Use tabs. " * 400
    agent = Agent(
        model=model,
        tools=TOOLS,
        limits=Limits(),
        policy=POLICY,
        instructions=lambda context: told,
    )
    result = await agent.run("Go.")
    assert turn.summaries > 3
    assert kinds(result.history).count("instructions") == 1
    summaries = [request for request in model.requests if asks_for_summary(request)]
    answers = [request for request in model.requests if not asks_for_summary(request)]
    assert {request.system for request in answers} == {(Block(told, cache=True),)}
    assert not any("Use tabs." in request.messages[0].text for request in summaries)


async def test_the_estimated_size_of_a_request_has_the_newest_instructions_once() -> None:
    lengths = iter([4_000, 8_000])
    agent = scripted(["One.", "Two."], look, instructions=lambda context: "x" * next(lengths))
    plain = scripted(["One.", "Two."], look)

    async def sizes(one: Agent) -> list[int]:
        history: tuple[Message, ...] = ()
        found = []
        for prompt in ("1", "2"):
            run = one.run(prompt, history=history)
            found += [event.tokens for event in only(StepStarted, await events_of(run))]
            history = run.history
        return found

    with_instructions, without = await sizes(agent), await sizes(plain)
    more = [a - b for a, b in zip(with_instructions, without, strict=True)]
    assert more == [1_004, 2_004]


async def test_an_agent_that_takes_the_conversation_over_has_its_own_instructions() -> None:
    billing = scripted(
        ["Paid.", "Bye."], name="billing", instructions=lambda context: f"I am {context.agent}."
    )
    front = scripted(
        [call("handoff", agent="billing")], handoff([billing]), instructions=counting()
    )
    first = await front.run("Pay.")
    assert systems(requests_of(front)) == ["Evaluation 1."]
    second = await front.run("Thanks.", history=first.history)
    assert systems(requests_of(billing)) == ["I am billing.", "I am billing."]
    assert texts(second.history, "instructions") == ["Evaluation 1.", "I am billing."]
