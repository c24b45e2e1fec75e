"""The stop guard: asked before a normal end, may let it happen, go on, or make it an error."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from holdfast import Limits, tool
from holdfast.errors import RunFailed
from holdfast.hooks import Context, Escalate, Inject, Stopping
from holdfast.kernel.events import Delivered
from holdfast.options import Policy
from holdfast.testing import call, fail, finish, hang
from tests.kernel.runs import (
    act,
    asks_client,
    check_events,
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


class Asked:
    """A guard that gives these verdicts in turn, then allows; keeps what it was asked."""

    def __init__(self, *verdicts: Inject | Escalate | None) -> None:
        self.verdicts = list(verdicts)
        self.about: list[Stopping] = []

    def __call__(self, _context: Context, stopping: Stopping) -> Inject | Escalate | None:
        self.about.append(stopping)
        return self.verdicts.pop(0) if self.verdicts else None


@tool(stop_after=True)
async def hand_in() -> str:
    """Hand the work in."""
    return "thanks"


async def test_a_guard_that_allows_lets_the_run_stop() -> None:
    guard = Asked(None)
    result = await scripted(["Done."], guard=guard).run("?")
    assert result.reason == "stop"
    assert len(guard.about) == 1


async def test_it_is_told_the_steps_the_message_and_the_path() -> None:
    guard = Asked()
    agent = scripted([call("look"), "Done."], look, guard=guard)
    result = await agent.run("?")
    assert guard.about == [Stopping(2, result.history[-1], "stop", "Done.")]


async def test_it_is_told_when_a_tool_ends_the_turn() -> None:
    guard = Asked()
    result = await scripted([call("look"), call("hand_in")], look, hand_in, guard=guard).run("?")
    assert guard.about == [Stopping(2, result.history[3], "stop_after_tool")]
    assert result.reason == "stop_after_tool"


async def test_it_counts_the_steps_of_this_turn() -> None:
    guard = Asked()
    agent = scripted(["One.", call("look"), "Two."], look, guard=guard)
    first = await agent.run("1")
    await agent.run("2", history=first.history)
    assert [stopping.steps for stopping in guard.about] == [1, 2]


async def test_what_it_injects_is_for_the_model_alone_and_the_run_goes_on() -> None:
    guard = Asked(Inject("You forgot the tests."))
    agent = scripted(["Done.", "Now it is."], guard=guard)
    run = agent.run("?")
    events = await events_of(run)
    assert kinds(run.history) == ["prompt", "answer", "injected", "answer"]
    said = run.history[2]
    assert (said.text, said.visibility, said.role) == ("You forgot the tests.", "model", "user")
    assert requests_of(agent)[-1].messages[-1] == said
    (delivered,) = only(Delivered, events)
    assert (delivered.why, delivered.messages) == ("guard", (said,))
    assert check_events(events).reason == "stop"


async def test_it_may_veto_as_often_as_it_likes() -> None:
    guard = Asked(*[Inject("Again.")] * 5)
    result = await scripted([], default="Done.", guard=guard).run("?")
    assert texts(result.history, "injected") == ["Again."] * 5
    assert [stopping.steps for stopping in guard.about] == [1, 2, 3, 4, 5, 6]


async def test_its_vetoes_count_as_steps_of_the_same_turn() -> None:
    guard = Asked(*[Inject("Again.")] * 50)
    agent = scripted([], default="Done.", guard=guard, limits=Limits(steps=3))
    result = await outcome(agent.run("?"))
    assert (result.reason, result.summary.steps) == ("limit", 3)


async def test_it_may_send_the_model_on_after_a_tool_that_ends_the_turn() -> None:
    guard = Asked(Inject("One more thing."))
    agent = scripted([call("hand_in"), "Done."], hand_in, guard=guard)
    result = await agent.run("?")
    assert kinds(result.history) == ["prompt", "answer", "results", "injected", "answer"]
    assert [stopping.reason for stopping in guard.about] == ["stop_after_tool", "stop"]


async def test_a_veto_without_a_word_lets_the_run_stop() -> None:
    result = await scripted(["Done."], guard=Asked(Inject(""))).run("?")
    assert (result.reason, kinds(result.history)) == ("stop", ["prompt", "answer"])


async def test_escalating_ends_the_run_in_an_error_with_the_reason() -> None:
    agent = scripted(["Done."], guard=Asked(Escalate("the build is red")))
    with pytest.raises(RunFailed, match="the build is red") as caught:
        await agent.run("?")
    assert caught.value.failure.kind == "escalated"
    assert caught.value.result.reason == "error"
    assert caught.value.result.text == "Done."


async def test_a_guard_that_raises_ends_the_run_in_an_error() -> None:
    def guard(_context: Context, _: Stopping) -> None:
        raise LookupError("no such build")

    with pytest.raises(RunFailed, match=r"LookupError: no such build") as caught:
        await scripted(["Done."], guard=guard).run("?")
    assert caught.value.failure.kind == "escalated"


async def test_a_guard_that_takes_too_long_ends_the_run_in_an_error() -> None:
    async def guard(_context: Context, _: Stopping) -> None:
        await anyio.sleep_forever()

    agent = scripted(["Done."], guard=guard, policy=Policy(guard_timeout=12))
    with pytest.raises(RunFailed, match="longer than 12 s") as caught:
        await agent.run("?")
    assert caught.value.failure.kind == "escalated"
    assert now() == 12.0


async def async_guard(context: Context, stopping: Stopping) -> Inject | None:
    await anyio.sleep(1)
    return Inject("Again.") if stopping.steps == 1 else None


def sync_guard(context: Context, stopping: Stopping) -> Inject | None:
    return Inject("Again.") if stopping.steps == 1 else None


def indirect_guard(context: Context, stopping: Stopping) -> Awaitable[Inject | None]:
    return async_guard(context, stopping)


@pytest.mark.parametrize("guard", [async_guard, sync_guard, indirect_guard])
async def test_a_guard_may_be_async_or_not(guard: Callable[[Context, Stopping], Any]) -> None:
    result = await scripted(["One.", "Two."], guard=guard).run("?")
    assert texts(result.history, "injected") == ["Again."]
    assert result.text == "Two."


async def test_a_run_without_a_guard_stops() -> None:
    assert (await scripted(["Done."]).run("?")).reason == "stop"


async def test_it_is_not_asked_when_a_run_fails() -> None:
    guard = Asked()
    result = await outcome(scripted([fail(status=401)], guard=guard).run("?"))
    assert result.reason == "error"
    assert guard.about == []


async def test_it_is_not_asked_when_a_run_is_interrupted() -> None:
    guard = Asked()
    run = scripted([["Half", hang()]], guard=guard).run("?")
    later(5, run.interrupt)
    await run
    assert guard.about == []


async def test_it_is_not_asked_at_the_limit_of_steps() -> None:
    guard = Asked()
    agent = scripted([call("look")], look, guard=guard, limits=Limits(steps=1))
    assert (await outcome(agent.run("?"))).reason == "limit"
    assert guard.about == []


async def test_it_is_not_asked_while_the_run_waits_for_the_outside() -> None:
    guard = Asked()
    agent = scripted([call("asks_client", n=1)], asks_client, guard=guard)
    assert (await agent.run("?")).reason == "requires_action"
    assert guard.about == []


async def test_it_is_not_asked_between_steps() -> None:
    guard = Asked()
    agent = scripted([call("act"), [*"On", finish("length")], "Done."], act, guard=guard)
    await agent.run("?")
    assert [stopping.steps for stopping in guard.about] == [3]


async def test_it_is_asked_about_a_history_that_is_at_rest() -> None:
    agent = scripted(["Done."])
    first = await agent.run("?")
    guard = Asked(Inject("Really?"))
    second = await scripted(["Yes."], guard=guard).run(history=first.history)
    assert guard.about[0] == Stopping(1, first.history[-1], "stop", "Done.")
    assert second.text == "Yes."


@pytest.mark.parametrize("verdict", ["go on", True, Inject(5)])  # type: ignore[arg-type]
async def test_what_is_no_verdict_ends_the_run_in_an_error(verdict: Any) -> None:
    with pytest.raises(RunFailed, match="which is no") as caught:
        await scripted(["Hi"], guard=lambda context, _: verdict).run("?")
    assert caught.value.failure.kind == "escalated"
    assert kinds(caught.value.result.history) == ["prompt", "answer"]
