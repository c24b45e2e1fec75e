"""A run as a coroutine: everything that asyncio does with one, and what happens without `await`."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import Iterable
from typing import Any

import anyio
import pytest

from holdfast import Run
from holdfast.errors import RunFailed, RunOver
from holdfast.events import RunEnded
from holdfast.options import Policy
from holdfast.testing import call, fail, hang, pause, say
from tests.kernel.runs import act, events_of, outcomes, requests_of, running, scripted

FOR_EVER = [hang()]


def test_asyncio_run_takes_a_run() -> None:
    assert asyncio.run(scripted(["Hi"]).run("?")).text == "Hi"


def test_asyncio_run_raises_the_failure_of_a_run() -> None:
    with pytest.raises(RunFailed):
        asyncio.run(scripted([fail(status=401)]).run("?"))


async def test_a_task_of_a_run_has_its_result() -> None:
    run = scripted([[pause(1), "Hi"]]).run("?")
    task = asyncio.create_task(run)
    assert "agent.run" in repr(task)
    assert (await task).text == "Hi"
    assert await run is task.result()


async def test_two_tasks_of_one_run_have_the_same_result() -> None:
    run = scripted([[pause(1), "Hi"]]).run("?")
    one, two = asyncio.create_task(run), asyncio.create_task(run)
    assert await one is await two


async def test_a_task_group_and_gather_take_runs() -> None:
    agent = scripted([], default="Hi")
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(agent.run("?")) for _ in range(3)]
    results = await asyncio.gather(agent.run("?"), agent.run("?"))
    assert [result.text for result in (*(task.result() for task in tasks), *results)] == ["Hi"] * 5


async def test_a_run_of_a_failed_task_group_is_cancelled() -> None:
    with pytest.raises(ExceptionGroup):
        async with asyncio.TaskGroup() as group:
            group.create_task(scripted([FOR_EVER]).run("?"))
            group.create_task(scripted([fail(status=401)]).run("?"))
    assert running() == set()


async def test_a_timeout_ends_the_run() -> None:
    run = scripted([FOR_EVER]).run("?")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(run, 10)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(10):
            await scripted([FOR_EVER]).run("?")
    assert running() == set()


async def test_a_cancelled_task_ends_the_run_and_waits_for_its_tools() -> None:
    run = scripted([call("act", seconds=100)], act).run("?")
    task = asyncio.create_task(run)
    await anyio.sleep(10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert running() == set()
    assert outcomes(run.history) == {"call_1": "interrupted"}


async def test_a_task_that_is_cancelled_before_it_begins_calls_no_model_silently() -> None:
    agent = scripted(["Hi"])
    task = asyncio.create_task(agent.run("?"))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert requests_of(agent) == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        del task
        gc.collect()


async def test_closing_a_run_as_a_coroutine_ends_it() -> None:
    run = scripted([FOR_EVER]).run("?")
    task = asyncio.create_task(run)
    await anyio.sleep(1)
    run.close()
    with pytest.raises(RunFailed, match="cancelled"):
        await task
    assert running() == set()


async def test_a_run_that_is_closed_before_it_begins_is_over() -> None:
    run = scripted(["Hi"]).run("?")
    run.close()
    with pytest.raises(RunOver):
        await run


async def test_a_run_that_a_task_drives_can_be_steered_and_read() -> None:
    run = scripted([[say("One."), pause(5), call("act")], "Two."], act).run("?")
    task = asyncio.create_task(run)
    await anyio.sleep(1)
    run.steer("Stop.")
    events = await events_of(run)
    assert isinstance(events[-1], RunEnded)
    assert "Stop." in str((await task).history)


async def test_a_reader_that_was_left_and_kept_does_not_hold_up_an_await() -> None:
    run = scripted([[say("x" * 500, chunks=500)]], policy=Policy(buffer=4)).run("?")
    reader = aiter(run)
    async for _ in reader:
        break
    with anyio.fail_after(60):
        assert len((await run).text) == 500
    assert isinstance([event async for event in reader][-1], RunEnded)


# --- Without `await` ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["text", "output", "reason", "summary", "new"])
def test_what_only_a_result_has_says_to_await_the_run(name: str) -> None:
    run = scripted(["Hi"]).run("?")
    with pytest.raises(AttributeError, match=rf"no {name}.*write `result = await agent\.run\(…\)`"):
        getattr(run, name)
    run.close()


def test_other_attributes_are_missing_as_for_any_object() -> None:
    run: Any = scripted(["Hi"]).run("?")
    with pytest.raises(AttributeError, match="'Run' object has no attribute 'historie'") as raised:
        _ = run.historie
    assert raised.value.name == "historie"
    run.close()


def test_a_plain_loop_over_a_run_says_what_to_write() -> None:
    run: Any = scripted(["Hi"]).run("?")
    with pytest.raises(TypeError, match=r"`async for event in .*stream_sync"):
        for _ in run:
            pass
    run.close()


def test_a_run_as_text_says_that_it_was_not_awaited() -> None:
    run = scripted(["Hi"]).run("?")
    assert f"{run}" == repr(run) == "<Run, not started: await it>"
    run.close()
    assert repr(run) == "<Run, ended>"


def test_a_run_that_is_dropped_unused_warns_once_and_says_what_to_write() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        scripted(["Hi"]).run("?")
        gc.collect()
    assert [(one.category, "await agent.run" in str(one.message)) for one in caught] == [
        (RuntimeWarning, True)
    ]


def used() -> Iterable[Run]:
    run = scripted(["Hi"]).run("?")
    asyncio.run(run)
    yield run


def test_a_run_that_was_awaited_does_not_warn_when_it_is_dropped() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len([*used()]) == 1
        gc.collect()
