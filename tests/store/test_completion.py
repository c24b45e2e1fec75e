"""Whoever has handed a transaction over hears what became of it, or that nobody knows."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import anyio
import pytest

from holdfast.store.database import OUTCOME_TIMEOUT, OutcomeUnknown
from holdfast.store.transaction_outcome import Completion, Waits, wait_for


@pytest.fixture
async def future() -> asyncio.Future[str]:
    return asyncio.get_running_loop().create_future()


def later(seconds: float, function: Any, *arguments: Any) -> None:
    asyncio.get_running_loop().call_later(seconds, function, *arguments)


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_an_outcome_is_returned_when_it_comes(future: asyncio.Future[str]) -> None:
    later(3, future.set_result, "committed")
    assert await wait_for(future) == "committed"
    assert now() == 3


async def test_an_outcome_that_is_there_already_is_returned(future: asyncio.Future[str]) -> None:
    future.set_result("committed")
    assert await wait_for(future) == "committed"
    assert now() == 0


async def test_an_error_is_raised(future: asyncio.Future[str]) -> None:
    later(3, future.set_exception, LookupError("no such chat"))
    with pytest.raises(LookupError, match="no such chat"):
        await wait_for(future)


async def test_past_the_bound_nobody_knows(future: asyncio.Future[str]) -> None:
    with pytest.raises(OutcomeUnknown, match="no answer within 10 s"):
        await wait_for(future)
    assert now() == OUTCOME_TIMEOUT
    assert not future.cancelled()


async def test_an_error_that_comes_too_late_is_no_complaint(
    future: asyncio.Future[str],
) -> None:
    complaints: list[object] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: complaints.append(context))
    with pytest.raises(OutcomeUnknown):
        await wait_for(future, 1)
    late = loop.create_future()
    task = asyncio.create_task(wait_for(late, 1))
    await anyio.sleep(0.5)
    task.cancel()
    await asyncio.wait([task])
    for each in (future, late):
        each.set_exception(LookupError("late"))
    await anyio.sleep(1)
    del future, late, each, task
    gc.collect()
    assert not complaints


async def test_a_cancelled_task_waits_for_the_outcome_and_is_cancelled_then(
    future: asyncio.Future[str],
) -> None:
    task = asyncio.create_task(wait_for(future))
    later(1, task.cancel)
    later(2, task.cancel)
    later(3, future.set_result, "committed")
    await asyncio.wait([task])
    assert task.cancelled()
    assert now() == 3
    assert future.result() == "committed"


async def test_a_cancelled_scope_waits_for_the_outcome_and_is_cancelled_then(
    future: asyncio.Future[str],
) -> None:
    later(3, future.set_result, "committed")
    with anyio.move_on_after(1) as scope:
        await wait_for(future)
    assert scope.cancelled_caught
    assert now() == 3


async def test_a_caller_that_is_cancelled_before_it_waits_hears_the_outcome_too(
    future: asyncio.Future[str],
) -> None:
    later(3, future.set_result, "committed")
    with anyio.CancelScope() as scope:
        scope.cancel()
        await wait_for(future)
    assert scope.cancelled_caught
    assert now() == 3


async def test_a_timeout_around_it_is_still_a_timeout(future: asyncio.Future[str]) -> None:
    later(3, future.set_result, "committed")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await wait_for(future)
    assert now() == 3
    await anyio.sleep(1)  # nothing of the cancellation is left


async def test_a_cancelled_caller_waits_no_longer_than_the_bound(
    future: asyncio.Future[str],
) -> None:
    task = asyncio.create_task(wait_for(future, 5))
    later(4, task.cancel)
    await asyncio.wait([task])
    assert task.cancelled()
    assert now() == 5
    assert not future.done()


async def test_a_cancelled_caller_does_not_hear_an_error(future: asyncio.Future[str]) -> None:
    task = asyncio.create_task(wait_for(future))
    later(1, task.cancel)
    later(3, future.set_exception, LookupError("no such chat"))
    await asyncio.wait([task])
    assert task.cancelled()


async def test_a_cancelled_scope_does_not_keep_the_loop_busy(future: asyncio.Future[str]) -> None:
    turns = 0

    def count() -> None:
        nonlocal turns
        turns += 1
        later(0.1, count)

    async def wait() -> None:
        with anyio.move_on_after(1):
            await wait_for(future)

    later(0, count)
    later(3, future.set_result, "committed")
    loop: Any = asyncio.get_running_loop()
    run_once, rounds = loop._run_once, 0

    def counted() -> None:
        nonlocal rounds
        rounds += 1
        run_once()

    loop._run_once = counted
    try:
        await wait()
    finally:
        del loop._run_once
    assert turns >= 29
    assert rounds < 4 * turns


async def test_a_future_that_its_owner_cancels_is_no_cancellation_of_the_caller(
    future: asyncio.Future[str],
) -> None:
    later(1, future.cancel)
    with pytest.raises(OutcomeUnknown, match="was cancelled"):
        await wait_for(future)


async def test_several_may_wait_for_one_future(future: asyncio.Future[str]) -> None:
    later(1, future.set_result, "committed")
    first, second = await asyncio.gather(wait_for(future), wait_for(future))
    assert first == second == "committed"


async def test_each_of_those_who_wait_together_waits_as_long_as_the_bound() -> None:
    waits, ends = Waits(asyncio.get_running_loop(), 10), dict[str, float]()
    answers = {name: Completion[str]() for name in ("first", "answered", "last")}
    answers["answered"].value = "committed"

    async def wait(name: str, after: float) -> None:
        await anyio.sleep(after)
        with pytest.raises(OutcomeUnknown):
            await waits.wait(answers[name])
        ends[name] = now()

    async with anyio.create_task_group() as group:
        group.start_soon(wait, "first", 1)
        group.start_soon(wait, "last", 7)
        later(8, answers["answered"].announce)
        await anyio.sleep(2)
        assert await waits.wait(answers["answered"]) == "committed"
        assert now() == 8
    assert ends == {"first": 11, "last": 17}
    await wait("first", 1)
    assert now() == 28, "and whoever comes after all of them, too"


async def test_no_timer_outlives_those_who_wait() -> None:
    loop = asyncio.get_running_loop()
    waits, answer = Waits(loop), Completion[str]()
    answer.value = "committed"
    later(1, answer.announce)
    assert await waits.wait(answer) == "committed"
    waits.close()
    assert all(timer.cancelled() for timer in loop._scheduled)  # type: ignore[attr-defined]
