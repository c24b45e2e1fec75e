"""What holds for every run: any script, any words from outside, any reader, at any moment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import anyio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast import Agent, Limits, Run, RunResult, ToolContext, approve, tool
from holdfast.errors import RunOver
from holdfast.events import Event
from holdfast.hooks import Context, Deny, Inject, Stopping
from holdfast.kernel.events import MessageCommitted, RunEnded, RunStarted, ToolFinished, ToolStarted
from holdfast.kernel.messages import user_message
from holdfast.messages import Message, dump, load
from holdfast.models import Request
from holdfast.options import Policy, Retry
from holdfast.testing import call, call_raw, cut, fail, finish, pause, say, think
from tests.kernel.runs import (
    asks_client,
    later,
    look,
    only,
    outcome,
    requests_of,
    scripted,
    stumble,
)

# --- A world ------------------------------------------------------------------------------------


class World:
    """Tools whose effects are remembered by call id."""

    def __init__(self) -> None:
        self.began: list[str] = []
        self.done: list[str] = []

    def tools(self) -> list[Any]:
        @tool
        async def act(context: ToolContext, seconds: float = 0) -> str:
            """Have an effect."""
            self.began.append(context.call_id)
            await anyio.sleep(seconds)
            self.done.append(context.call_id)
            return "did it"

        @tool(approval="ask")
        async def delete(context: ToolContext) -> str:
            """Have an effect that a person must agree to."""
            self.began.append(context.call_id)
            self.done.append(context.call_id)
            return "deleted"

        @tool(exclusive=True)
        async def plan() -> str:
            """Must be called alone."""
            return "planned"

        @tool(stop_after=True)
        async def hand_in() -> str:
            """End the turn."""
            return "thanks"

        return [act, delete, plan, hand_in, look, stumble, asks_client]


COMMON = [
    say("some text", chunks=3),
    pause(1),
    call("act"),
    call("act", seconds=2),
    call("look"),
    call("look", seconds=2),
]
RARE = [
    think("a thought", signature="s"),
    call("stumble"),
    call("asks_client", n=1),
    call("delete"),
    call("hand_in"),
    call("plan"),
    call("unknown"),
    call_raw("act", '{"seconds": '),
    call_raw("act", '{"sec', ended=False),
]
ITEMS = st.sampled_from([*COMMON * 2, *RARE])
ENDS = st.sampled_from(
    [*[None] * 12, *[fail(status=503)] * 3, cut(), finish("length"), fail(status=401)]
)


@st.composite
def turns(draw: st.DrawFn) -> list[Any]:
    end = draw(ENDS)
    return [*draw(st.lists(ITEMS, min_size=1, max_size=6)), *([] if end is None else [end])]


@dataclass(frozen=True)
class Plan:
    script: list[Any]
    said: list[tuple[float, str]]
    """What is done from outside, and when."""
    pause: float | None
    """How long a reader takes for each event; None when nobody reads."""
    buffer: int
    eager: str
    vetoes: int
    output: type | None
    answers: list[str]
    """How the actions of a run that waits are resolved."""


PLANS = st.builds(
    Plan,
    script=st.lists(turns(), min_size=1, max_size=4),
    said=st.lists(
        st.tuples(
            st.sampled_from([0, 0.5, 1, 1.5, 2, 3, 4, 6]),
            st.sampled_from(["steer", "follow_up", "interrupt"]),
        ),
        max_size=3,
    ),
    pause=st.sampled_from([None, 0, 0.3]),
    buffer=st.sampled_from([1, 2, 64]),
    eager=st.sampled_from(["pure", "all"]),
    vetoes=st.integers(0, 2),
    output=st.sampled_from([None, None, int, bool]),
    answers=st.lists(st.sampled_from(["value", "deny", "nothing"]), min_size=3, max_size=3),
)


def build(plan: Plan, world: World) -> Agent[Any, Any]:
    vetoes = iter([Inject("Not yet.")] * plan.vetoes)

    async def guard(_context: Context, _: Stopping) -> Inject | None:
        await anyio.sleep(1)
        return next(vetoes, None)

    return scripted(
        plan.script,
        *world.tools(),
        default="Done." if plan.output is None else '{"value": 5}',  # an int, and no bool
        eager=plan.eager,
        guard=guard,
        output=plan.output,
        limits=Limits(steps=6),
        policy=Policy(buffer=plan.buffer, retry=Retry(attempts=3)),
    )


async def drive(run: Run[Any], plan: Plan) -> tuple[list[Event] | None, RunResult[Any], list[str]]:
    """The events that were read, the result, and the words that the run accepted."""
    accepted: list[str] = []

    def speak(kind: str, text: str) -> None:
        if kind == "interrupt":
            run.interrupt()
            return
        try:
            getattr(run, kind)(text)
        except RunOver:
            return
        accepted.append(text)

    for number, (seconds, kind) in enumerate(plan.said):
        later(seconds, lambda kind=kind, text=f"{kind} {number}": speak(kind, text))  # type: ignore[misc]
    if plan.pause is None:
        return None, await outcome(run), accepted
    events = []
    async for event in run:
        events.append(event)
        if plan.pause:
            await anyio.sleep(plan.pause)
    return events, await outcome(run), accepted


def resolutions(result: RunResult[Any], answers: Sequence[str]) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for action, answer in zip(result.actions, [*answers, *["value"] * 20], strict=False):
        if answer == "deny":
            given[action.call.id] = Deny("no")
        elif answer == "value":
            given[action.call.id] = approve(action) if action.kind == "approval" else "a value"
    return given


# --- What holds ---------------------------------------------------------------------------------


def check_shown(events: Sequence[Event], before: Sequence[Message], result: RunResult[Any]) -> None:
    """The events tell what happened, in order, and end once."""
    assert only(RunStarted, events) == [events[0]] == [RunStarted(len(before))]
    assert only(RunEnded, events) == [events[-1]]
    assert isinstance(events[-1], RunEnded)
    assert (events[-1].reason, events[-1].failure) == (result.reason, result.failure)
    committed = only(MessageCommitted, events)
    assert tuple(event.message for event in committed) == result.new
    assert [event.number for event in committed] == list(range(len(before), len(result.history)))
    ends = {event.result.call_id: event.result for event in only(ToolFinished, events)}
    for started in only(ToolStarted, events):
        assert started.call_id in ends
    for message in result.new:
        for made in message.results:
            assert ends[made.call_id] == made, "the last end that was shown is the one committed"


def check_ends_shown_once(events: Sequence[Event], result: RunResult[Any]) -> None:
    """Except where an early call had ended and was then refused beside an exclusive one."""
    refused = {r.call_id for m in result.new for r in m.results if r.outcome == "refused"}
    shown = [event.result.call_id for event in only(ToolFinished, events)]
    twice = {call_id for call_id in shown if shown.count(call_id) > 1}
    assert twice <= refused


def check_history(result: RunResult[Any]) -> None:
    """Every call has one result, except those that the run says it waits for."""
    calls = [
        call.id
        for message in result.history
        if message.kind == "answer" and message.visibility != "user"
        for call in message.calls
    ]
    answered = [made.call_id for message in result.history for made in message.results]
    assert len(set(calls)) == len(calls)
    assert len(set(answered)) == len(answered)
    waiting = [action.call.id for action in result.actions]
    assert set(calls) - set(answered) == set(waiting)
    assert (result.reason == "requires_action") == bool(waiting)
    assert (result.reason == "error") == (result.failure is not None)
    assert result.output is None or result.reason == "stop"
    assert result.output in (None, 5, result.text)
    assert load(dump(result.history)) == result.history


def check_request(request: Request) -> None:
    """The sequence is one that every provider accepts."""
    messages = request.messages
    assert messages[0].role == "user"
    for message, following in pairwise(messages):
        asked = [call.id for call in message.calls if not call.provider_executed]
        if asked:
            assert [made.call_id for made in following.results] == asked
        else:
            assert following.role != "tool"
    assert not messages[-1].calls


def check_effects(world: World, history: Sequence[Message]) -> None:
    """What was begun is not denied, what was done is not forgotten, nothing is done twice."""
    outcomes = {r.call_id: r.outcome for m in history for r in m.results}
    assert len(set(world.began)) == len(world.began)
    for call_id in world.began:
        assert outcomes[call_id] in ("ok", "interrupted")
    for call_id in world.done:
        assert outcomes[call_id] == "ok"


def check_words(accepted: Sequence[str], result: RunResult[Any]) -> None:
    """What was said is in the history or handed back, once."""
    told = [message.text for message in (*result.new, *result.undelivered)]
    for text in accepted:
        assert told.count(text) == 1, text


@given(plan=PLANS)
@settings(suppress_health_check=[HealthCheck.too_slow])
async def test_whatever_happens_a_conversation_stays_whole(plan: Plan) -> None:
    world = World()
    agent = build(plan, world)
    run = agent.run("Begin")
    before: tuple[Message, ...] = ()
    for _ in range(4):
        events, result, accepted = await drive(run, plan)
        assert result.history[: len(before)] == before
        if events is not None:
            check_shown(events, before, result)
            check_ends_shown_once(events, result)
        check_history(result)
        check_words(accepted, result)
        check_effects(world, result.history)
        before = result.history
        given = resolutions(result, plan.answers)
        run = agent.run(None if given else "Go on", history=before, resolve=given)
    await run.aclose()
    requests = requests_of(agent)
    for request in requests:
        check_request(request)
    for earlier, request in pairwise(requests):
        assert request.messages[: len(earlier.messages)] == earlier.messages


@given(plan=PLANS, turns=st.integers(0, 60))
@settings(suppress_health_check=[HealthCheck.too_slow])
async def test_a_run_that_is_closed_at_any_moment_can_be_gone_on_with(
    plan: Plan, turns: int
) -> None:
    world = World()
    agent = build(plan, world)
    run = agent.run("Begin")
    async with run:
        reader = aiter(run)
        with anyio.move_on_after(turns / 10):
            async for _ in reader:
                await anyio.sleep(plan.pause or 0)
    rest = [event async for event in reader]
    assert [type(event) for event in rest].count(RunEnded) <= 1
    result = await outcome(run)

    after = await outcome(
        scripted([], *world.tools(), default="Done.").run("?", history=result.history)
    )

    assert after.reason == "stop"
    assert after.history[: len(result.history)] == result.history
    assert user_message("?") in after.history
