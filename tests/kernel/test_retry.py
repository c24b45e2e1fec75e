from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast import Agent, RunResult, tool
from holdfast.errors import RunFailed
from holdfast.hooks import Context
from holdfast.kernel import retry
from holdfast.kernel.errors import Failure, FailureKind, ProviderError, classify
from holdfast.kernel.events import Event, MessageCommitted, Retrying, RunEnded
from holdfast.kernel.messages import Message
from holdfast.kernel.model import TextDelta
from holdfast.kernel.retry import GiveUp, RetryDecision, Wait
from holdfast.options import Policy, Ports, Retry, Stream
from holdfast.testing import (
    START,
    ScriptedModel,
    ScriptedTurn,
    call,
    cut,
    fail,
    hang,
    pause,
    ports,
    say,
    think,
)

ALMOST_ONE = 1 - 2**-53
"""The largest number that a port's `random` may give."""


def failure(
    status: int = 529, *, retry_after: float | None = None, should_retry: bool | None = None
) -> Failure:
    return classify(
        ProviderError(status=status, retry_after=retry_after, should_retry=should_retry)
    )


def after(failure: Failure, attempt: int, policy: Retry, random: float) -> RetryDecision:
    return retry.after(failure, attempt, policy, random=random, now=START)


def waited(verdict: RetryDecision) -> float:
    assert isinstance(verdict, Wait)
    return verdict.seconds


# --- The verdict --------------------------------------------------------------------------------


def test_the_delay_doubles_from_one_second_up_to_a_minute() -> None:
    policy = Retry(attempts=100)
    ceilings = [waited(after(failure(), attempt, policy, ALMOST_ONE)) for attempt in range(1, 10)]
    assert ceilings == pytest.approx([1, 2, 4, 8, 16, 32, 60, 60, 60])


@pytest.mark.parametrize("random", [0.0, 0.25, 0.5, ALMOST_ONE])
def test_the_delay_is_drawn_from_the_whole_range(random: float) -> None:
    assert waited(after(failure(), 4, Retry(), random)) == pytest.approx(8 * random)


@given(
    attempt=st.integers(1, 10**6),
    random=st.floats(0, ALMOST_ONE),
    first=st.floats(0, 1e12),
    cap=st.floats(0, 1e6),
)
def test_the_delay_is_never_below_zero_or_above_the_cap(
    attempt: int, random: float, first: float, cap: float
) -> None:
    policy = Retry(attempts=10**9, first_delay=first, max_delay=cap)
    assert 0 <= waited(after(failure(), attempt, policy, random)) <= cap


@given(attempt=st.integers(1, 9), random=st.floats(0, ALMOST_ONE), asked=st.floats(0.001, 300))
def test_what_the_provider_asks_for_is_waited_exactly(
    attempt: int, random: float, asked: float
) -> None:
    assert after(failure(retry_after=asked), attempt, Retry(), random) == Wait(asked)


@pytest.mark.parametrize("asked", [0, 0.0, -5, float("nan")])
def test_a_wait_that_is_none_is_not_what_the_provider_asks_for(asked: float) -> None:
    assert after(failure(retry_after=asked), 3, Retry(), 0.5) == Wait(2.0)


def test_a_wait_of_exactly_the_limit_is_waited() -> None:
    assert after(failure(retry_after=300), 1, Retry(), 0) == Wait(300)


@pytest.mark.parametrize("asked", [300.001, 3600, float("inf")])
def test_a_provider_that_asks_for_too_long_a_wait_is_given_up(asked: float) -> None:
    assert isinstance(after(failure(retry_after=asked), 1, Retry(), 0), GiveUp)


def test_giving_up_on_a_long_wait_says_until_when() -> None:
    verdict = after(failure(retry_after=3600), 1, Retry(), 0)
    assert isinstance(verdict, GiveUp)
    assert "after 2026-01-01 01:00:00 UTC" in verdict.failure.message


@given(
    attempts=st.integers(1, 1_000),
    attempt=st.integers(1, 2_000),
    asked=st.none() | st.floats(0, 300),
)
def test_the_last_attempt_is_the_one_that_the_policy_names(
    attempts: int, attempt: int, asked: float | None
) -> None:
    verdict = after(failure(retry_after=asked), attempt, Retry(attempts=attempts), 0.5)
    assert isinstance(verdict, GiveUp) is (attempt >= attempts)


def test_a_failure_may_be_worth_fewer_attempts_than_the_policy_s() -> None:
    refused = classify(ProviderError(kind="network", attempts=3))
    assert isinstance(after(refused, 2, Retry(), 0), Wait)
    assert isinstance(after(refused, 3, Retry(), 0), GiveUp)
    assert isinstance(after(refused, 2, Retry(attempts=2), 0), GiveUp)


def test_giving_up_says_how_often_it_was_tried() -> None:
    failed = failure()
    verdict = after(failed, 10, Retry(), 0)
    message = f"{failed.message} Given up after 10 attempts."
    assert verdict == GiveUp(replace(failed, message=message))


def test_a_single_attempt_is_not_spoken_of() -> None:
    assert after(failure(), 1, Retry(attempts=1), 0) == GiveUp(failure())


@given(attempt=st.integers(1, 100), asked=st.none() | st.floats(0, 1e9))
def test_what_is_not_retryable_is_given_up_at_once(attempt: int, asked: float | None) -> None:
    for lasting in (failure(401), failure(529, retry_after=asked, should_retry=False)):
        assert after(lasting, attempt, Retry(), 0.5) == GiveUp(lasting)


def test_every_constant_can_be_set() -> None:
    policy = Retry(attempts=3, first_delay=5, max_delay=8, max_retry_after=20)
    assert waited(after(failure(), 1, policy, ALMOST_ONE)) == pytest.approx(5)
    assert waited(after(failure(), 2, policy, ALMOST_ONE)) == pytest.approx(8)
    assert isinstance(after(failure(), 3, policy, 0), GiveUp)
    assert isinstance(after(failure(retry_after=21), 1, policy, 0), GiveUp)


# --- In a run -----------------------------------------------------------------------------------


def agent(
    *script: ScriptedTurn, retry: Retry | None = None, world: Ports | None = None, **options: Any
) -> tuple[Agent, ScriptedModel]:
    model = ScriptedModel(list(script))
    policy = Policy(retry=retry or Retry())
    return (
        Agent(model=model, policy=policy, ports=world or ports()).replace(**options),
        model,
    )


async def happened(agent: Agent, history: Sequence[Message] = ()) -> list[Event]:
    return [event async for event in agent.run("Hello?", history=history)]


def retries(events: Sequence[Event]) -> list[Retrying]:
    return [event for event in events if isinstance(event, Retrying)]


def ended(events: Sequence[Event]) -> RunEnded:
    assert isinstance(events[-1], RunEnded)
    return events[-1]


async def failed(agent: Agent) -> RunResult:
    with pytest.raises(RunFailed) as caught:
        await agent.run("Hello?")
    return caught.value.result


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_a_failed_call_is_tried_again_and_people_are_told() -> None:
    world = Ports(now=ports().now, random=lambda: 0.5)
    holdfast, model = agent(fail(status=529), fail(status=500), "Here.", world=world)
    events = await happened(holdfast)
    assert retries(events) == [
        Retrying(
            1,
            10,
            0.5,
            START + 500_000,
            "overloaded",
            "scripted:model is overloaded.",
            "ProviderError: status 529",
        ),
        Retrying(
            2,
            10,
            1.0,
            START + 1_500_000,
            "server",
            "scripted:model had an internal error.",
            "ProviderError: status 500",
        ),
    ]
    assert ended(events).reason == "stop"
    assert now() == pytest.approx(1.5)
    assert model.left == 0


async def test_the_next_attempt_begins_when_it_was_announced() -> None:
    begun: list[int] = []
    world = ports()
    holdfast, _ = agent(
        fail(status=500),
        [lambda request: begun.append(world.now()), fail(status=500)],
        [lambda request: begun.append(world.now()), "Here."],
        world=world,
    )
    events = await happened(holdfast)
    assert [event.at for event in retries(events)] == pytest.approx(begun, abs=2)


async def test_what_the_provider_asks_for_is_waited_in_a_run() -> None:
    holdfast, _ = agent(fail(status=429, retry_after=120), "Here.")
    events = await happened(holdfast)
    assert [(event.delay, event.kind) for event in retries(events)] == [(120, "rate_limit")]
    assert now() == 120


async def test_the_default_is_ten_attempts() -> None:
    holdfast, model = agent(*[fail(status=503)] * 12)
    result = await failed(holdfast)
    assert len(model.requests) == 10
    assert result.failure is not None
    assert result.failure.kind == "overloaded"
    assert "10 attempts" in result.failure.message
    assert result.reason == "error"


@pytest.mark.parametrize("attempts", [1, 2, 4])
async def test_the_number_of_attempts_can_be_set(attempts: int) -> None:
    holdfast, model = agent(*[fail(status=503)] * 12, retry=Retry(attempts=attempts))
    events = await happened(holdfast)
    assert len(model.requests) == attempts
    assert [(event.attempt, event.of) for event in retries(events)] == [
        (attempt, attempts) for attempt in range(1, attempts)
    ]


async def test_the_delays_can_be_set() -> None:
    world = Ports(now=ports().now, random=lambda: 0.5)
    holdfast, _ = agent(
        *[fail(status=503)] * 3, "Here.", retry=Retry(first_delay=10, max_delay=25), world=world
    )
    events = await happened(holdfast)
    assert [event.delay for event in retries(events)] == [5, 10, 12.5]


async def test_a_longer_wait_than_allowed_ends_the_run_and_says_until_when() -> None:
    holdfast, model = agent(fail(status=429, retry_after=301), "never asked")
    result = await failed(holdfast)
    assert result.failure is not None
    assert result.failure.kind == "rate_limit"
    assert result.failure.retry_after == 301
    assert "after 2026-01-01 00:05:01 UTC" in result.failure.message
    assert now() == 0
    assert model.left == 1


async def test_the_longest_wait_can_be_set() -> None:
    holdfast, _ = agent(
        fail(status=429, retry_after=301), "Here.", retry=Retry(max_retry_after=400)
    )
    assert (await holdfast.run("Hello?")).text == "Here."
    assert now() == 301


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, "auth"),
        (402, "quota"),
        (403, "permission"),
        (404, "not_found"),
        (400, "invalid_request"),
    ],
)
async def test_what_will_not_pass_ends_the_run_at_once(status: int, kind: FailureKind) -> None:
    holdfast, model = agent(fail(status=status), "never asked")
    events = await happened(holdfast)
    end = ended(events)
    assert end.reason == "error"
    assert end.failure is not None
    assert (end.failure.kind, end.failure.status) == (kind, status)
    assert retries(events) == []
    assert len(model.requests) == 1
    assert now() == 0


async def test_a_provider_that_says_not_to_retry_ends_the_run() -> None:
    holdfast, model = agent(fail(status=503, should_retry=False), "never asked")
    await failed(holdfast)
    assert len(model.requests) == 1


@pytest.mark.parametrize(
    ("trouble", "kind"),
    [
        (fail(ConnectionResetError("gone")), "network"),
        (fail(TimeoutError()), "timeout"),
        (hang(), "stream_silent"),
        (["half", cut()], "stream_cut"),
        (think("hm"), "empty_response"),
        (fail(status=408), "timeout"),
        (fail(status=409), "server"),
        (fail(status=425), "server"),
        (fail(status=523), "server"),
    ],
)
async def test_what_may_pass_is_tried_again(trouble: ScriptedTurn, kind: FailureKind) -> None:
    holdfast, model = agent(trouble, "Here.")
    events = await happened(holdfast)
    assert [event.kind for event in retries(events)] == [kind]
    assert ended(events).reason == "stop"
    assert model.left == 0


async def test_a_request_that_could_not_be_prepared_is_tried_again() -> None:
    asked: list[int] = []

    def project(_context: Context, messages: Sequence[Message]) -> Sequence[Message]:
        asked.append(len(messages))
        if len(asked) == 1:
            raise OSError("not yet")
        return messages

    holdfast, model = agent("Here.", project=project)
    events = await happened(holdfast)
    assert [event.kind for event in retries(events)] == ["prepare"]
    assert len(asked) == 2
    assert len(model.requests) == 1


async def test_the_attempts_of_a_step_are_counted_anew_for_the_next() -> None:
    @tool(effect="pure")
    async def look() -> str:
        """Look."""
        return "nothing"

    holdfast, model = agent(
        fail(status=500),
        fail(status=500),
        call("look"),
        fail(status=500),
        fail(status=500),
        "Here.",
        retry=Retry(attempts=3),
        tools=[look],
    )
    events = await happened(holdfast)
    assert [event.attempt for event in retries(events)] == [1, 2, 1, 2]
    assert ended(events).reason == "stop"
    assert model.left == 0


async def test_nothing_of_a_failed_attempt_is_in_the_answer() -> None:
    holdfast, model = agent([say("false start"), fail(status=500)], "Here.")
    result = await holdfast.run("Hello?")
    assert [message.text for message in result.history] == ["Hello?", "Here."]
    assert len(model.requests) == 2
    assert model.requests[0].messages == model.requests[1].messages


async def test_a_failed_attempt_is_told_to_be_void_before_the_next_shows_anything() -> None:
    holdfast, _ = agent([say("false start"), fail(status=500)], "Here.")
    events = await happened(holdfast)
    shown = [event for event in events if isinstance(event, (TextDelta, Retrying))]
    assert [type(event) for event in shown] == [TextDelta, Retrying, TextDelta]


async def test_giving_up_keeps_what_was_said_for_people_only() -> None:
    holdfast, _ = agent(
        fail(status=500),
        [think("hm"), say("half an ans"), fail(status=500)],
        retry=Retry(attempts=2),
    )
    result = await failed(holdfast)
    partial = result.history[-1]
    assert partial.text == "half an ans"
    assert (partial.visibility, partial.finish) == ("user", "error")

    goes_on = ScriptedModel(["Here."])
    await Agent(model=goes_on).run("Again?", history=result.history)
    assert [message.text for message in goes_on.requests[0].messages] == ["Hello?", "Again?"]


async def test_giving_up_with_nothing_said_leaves_nothing() -> None:
    holdfast, _ = agent(fail(status=401))
    result = await failed(holdfast)
    assert [message.text for message in result.history] == ["Hello?"]


async def test_a_partial_answer_that_is_kept_for_people_is_committed_before_the_end() -> None:
    holdfast, _ = agent([say("half"), fail(status=401)])
    events = await happened(holdfast)
    committed = [event for event in events if isinstance(event, MessageCommitted)]
    assert committed[-1].message.text == "half"
    assert events.index(committed[-1]) < events.index(ended(events))


async def test_a_run_that_failed_can_be_gone_on_with_without_a_prompt() -> None:
    holdfast, _ = agent([say("half"), fail(status=401)])
    result = await failed(holdfast)
    again = await Agent(model=ScriptedModel(["Here."])).run(history=result.history)
    assert again.text == "Here."


async def test_an_interrupt_ends_the_wait() -> None:
    holdfast, model = agent(fail(status=429, retry_after=200), "never asked")
    run = holdfast.run("Hello?")
    async for event in run:
        if isinstance(event, Retrying):
            run.interrupt()
    result = await run
    assert result.reason == "interrupted"
    assert now() < 1
    assert model.left == 1


async def test_a_steering_message_ends_the_wait_and_is_in_the_next_request() -> None:
    holdfast, model = agent(fail(status=429, retry_after=200), "Here.")
    run = holdfast.run("Hello?")
    async for event in run:
        if isinstance(event, Retrying):
            run.steer("Never mind that.")
    assert (await run).text == "Here."
    assert now() < 1
    assert [message.text for message in model.requests[1].messages] == [
        "Hello?",
        "Never mind that.",
    ]


async def test_a_cancelled_reader_ends_the_wait() -> None:
    holdfast, model = agent(fail(status=429, retry_after=200), "never asked")
    async with holdfast.run("Hello?") as run:
        async for event in run:
            if isinstance(event, Retrying):
                break
    assert now() < 1
    assert model.left == 1


async def test_the_time_between_attempts_is_not_charged_to_the_next_one() -> None:
    """The silence guard of an attempt begins with the attempt."""
    model = ScriptedModel([fail(status=429, retry_after=100), [pause(50), "Here."]])
    policy = Policy(stream=Stream(first_event=60))
    result = await Agent(model=model, policy=policy).run("Hello?")
    assert result.text == "Here."
    assert len(model.requests) == 2
