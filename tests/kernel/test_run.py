"""A run as its caller holds it: awaited, iterated, both, closed, dropped, read slowly."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import anyio
import pytest

from holdfast import Agent, Run, tool
from holdfast.errors import ConfigError, RunFailed, RunOver
from holdfast.events import Event
from holdfast.kernel.events import RunEnded, ToolFinished
from holdfast.kernel.model import TextDelta
from holdfast.messages import Message, Reasoning, Text, ToolCall
from holdfast.options import Calls, Policy
from holdfast.testing import call, fail, hang, pause, say
from tests.kernel.runs import (
    a_few_turns,
    act,
    check_events,
    events_of,
    held_up_after_its_answer,
    kinds,
    later,
    look,
    model_of,
    names,
    now,
    only,
    outcome,
    outcomes,
    requests_of,
    results_in,
    running,
    scripted,
)


async def first(run: Run) -> Event:
    async for event in run:
        return event
    raise AssertionError("the run has no events")


# --- Awaiting and iterating ---------------------------------------------------------------------


async def test_a_run_does_nothing_until_it_is_awaited_or_iterated() -> None:
    agent = scripted(["Hi"])
    run = agent.run("?")
    await anyio.sleep(100)
    assert requests_of(agent) == []
    assert run.history == ()
    assert running() == set()
    assert (await run).text == "Hi"


async def test_a_run_that_is_never_started_leaves_nothing_behind() -> None:
    run = scripted(["Hi"]).run("?")
    run.steer("!")
    run.follow_up("!")
    run.interrupt()
    await run.aclose()
    del run
    assert running() == set()


def test_a_run_can_be_made_without_an_event_loop() -> None:
    with pytest.warns(RuntimeWarning, match="never awaited, iterated or entered"):
        assert scripted(["Hi"]).run("?").history == ()


async def test_a_run_that_is_closed_before_it_begins_is_not_complained_of() -> None:
    await scripted(["Hi"]).run("?").aclose()


async def test_awaiting_twice_gives_the_same_result() -> None:
    agent = scripted(["Hi"])
    run = agent.run("?")
    assert await run is await run
    assert len(requests_of(agent)) == 1


async def test_several_tasks_may_await_one_run() -> None:
    run = scripted([[pause(1), "Hi"]]).run("?")
    one, two = await asyncio.gather(run, run)
    assert one is two


async def test_awaiting_a_failed_run_twice_raises_twice() -> None:
    run = scripted([fail(status=401)]).run("?")
    for _ in range(2):
        with pytest.raises(RunFailed):
            await run


async def test_iterating_to_the_end_and_then_awaiting_gives_the_result() -> None:
    run = scripted(["Hi"]).run("?")
    events = await events_of(run)
    assert check_events(events).reason == (await run).reason == "stop"


async def test_a_run_that_has_been_read_to_its_end_has_no_more_events() -> None:
    run = scripted(["Hi"]).run("?")
    await events_of(run)
    assert await events_of(run) == []


async def test_one_task_may_await_while_another_iterates() -> None:
    run = scripted([[say("x" * 500, chunks=500)]], policy=Policy(buffer=4)).run("?")
    read: list[Event] = []

    async def read_slowly() -> None:
        async for event in run:
            read.append(event)
            await anyio.sleep(1)

    async with anyio.create_task_group() as group:
        group.start_soon(read_slowly)
        await asyncio.sleep(0)
        result = await run
        assert result.text == "x" * 500

    check_events(read)
    assert len(only(TextDelta, read)) == 500


async def test_who_reads_gets_every_event_also_when_another_awaits_first() -> None:
    run = scripted([[say("abc", chunks=3)]], policy=Policy(buffer=1)).run("?")
    async with asyncio.TaskGroup() as group:
        reading = group.create_task(events_of(run))
        result = await run  # begins before the reader does
    check_events(reading.result())
    assert len(only(TextDelta, reading.result())) == 3
    assert result.text == "abc"


async def test_who_comes_late_to_a_run_that_is_awaited_sees_the_rest_of_it() -> None:
    run = scripted([["a", pause(10), "b"]], policy=Policy(buffer=1)).run("?")
    late: list[Event] = []

    async def read() -> None:
        await anyio.sleep(5)
        late.extend(await events_of(run))

    async with anyio.create_task_group() as group:
        group.start_soon(read)
        assert (await run).text == "ab"
    assert names(late) == ["TextDelta", "MessageCommitted", "RunEnded"]


async def test_awaiting_after_a_break_runs_to_the_end() -> None:
    run = scripted([[say("x" * 500, chunks=500)]], policy=Policy(buffer=4)).run("?")
    async for _ in run:
        break
    assert (await run).text == "x" * 500


async def test_whoever_awaits_is_not_held_up_by_another_who_stops_reading() -> None:
    run = scripted([[pause(1), say("x" * 500, chunks=500)]], policy=Policy(buffer=4)).run("?")

    async def read_a_little() -> None:
        async for event in run:
            if isinstance(event, TextDelta):
                break

    async with anyio.create_task_group() as group:
        group.start_soon(read_a_little)
        await asyncio.sleep(0)
        result = await run

    assert result.text == "x" * 500


async def test_iterating_again_after_a_break_goes_on_where_it_stopped() -> None:
    run = scripted([[say("x" * 200, chunks=200)]], policy=Policy(buffer=4)).run("?")
    read: list[Event] = []
    while not (read and isinstance(read[-1], RunEnded)):
        async for event in run:
            read.append(event)
            if len(read) % 7 == 0:
                break
    check_events(read)
    assert len(only(TextDelta, read)) == 200


async def test_a_reader_that_is_cancelled_while_it_waits_loses_no_event() -> None:
    agent = scripted([[pause(3), "Hi", pause(3), "!"]])
    read: list[Event] = []
    async with agent.run("?") as run:
        reader = aiter(run)
        while not (read and isinstance(read[-1], RunEnded)):
            with anyio.move_on_after(0.5):
                read.append(await anext(reader))
    assert [delta.text for delta in only(TextDelta, read)] == ["Hi", "!"]
    check_events(read)


async def test_the_history_of_a_run_grows_while_it_goes_on() -> None:
    agent = scripted([call("act", seconds=5), "Done."], act)
    lengths = []
    run = agent.run("?")
    for seconds in (1, 4.5, 6):
        later(seconds, lambda: lengths.append(len(run.history)))
    await run
    await anyio.sleep(10)
    assert lengths == [2, 2, 4]


# --- Closing ------------------------------------------------------------------------------------


async def test_leaving_the_block_ends_every_task_of_the_run() -> None:
    agent = scripted([[call("look", seconds=1000), hang()]], look)
    async with agent.run("?") as run:
        async for event in run:
            if type(event).__name__ == "ToolStarted":
                break
        assert running() == {"holdfast run", "tool look"}
    assert running() == set()
    assert now() == 0.0


async def test_entering_the_block_starts_the_run() -> None:
    agent = scripted([[pause(1), "Hi"]])
    async with agent.run("?") as run:
        await anyio.sleep(2)
        assert [message.text for message in run.history] == ["?", "Hi"]
        assert (await run).text == "Hi"


async def test_an_exception_in_the_block_ends_the_run_and_is_not_swallowed() -> None:
    with pytest.raises(ZeroDivisionError):
        async with scripted([hang()]).run("?") as run:
            await first(run)
            raise ZeroDivisionError
    assert running() == set()


@pytest.mark.parametrize("turns", range(12))
async def test_a_run_may_be_closed_at_any_moment(turns: int) -> None:
    agent = scripted(
        [[call("look"), pause(0), say("a", chunks=1)], call("act"), fail(status=500), hang()],
        look,
        act,
        policy=Policy(buffer=2),
    )
    run = agent.run("?")
    reader = aiter(run)
    for _ in range(turns):
        await asyncio.sleep(0)
    await run.aclose()
    assert running() == set()
    with pytest.raises(RunOver):
        run.steer("!")
    last = [event async for event in reader][-1:]
    assert all(isinstance(event, RunEnded) for event in last)


@pytest.mark.parametrize("turns", range(6))
async def test_a_run_that_was_closed_still_has_its_one_end(turns: int) -> None:
    run = scripted([[say("abc", chunks=3), hang()]]).run("?")
    reader = aiter(run)
    for _ in range(turns):
        await asyncio.sleep(0)
    await run.aclose()
    last = check_events([event async for event in reader])
    assert last.failure is not None
    assert (last.reason, last.failure.kind) == ("error", "cancelled")


async def test_who_reads_a_run_that_another_closes_sees_its_end() -> None:
    run = scripted([[say("abc", chunks=3), hang()]]).run("?")
    async with anyio.create_task_group() as group:
        later(5, lambda: group.start_soon(run.aclose))
        events = await events_of(run)
    assert len(only(TextDelta, events)) == 3
    last = check_events(events)
    assert last.failure is not None
    assert (last.reason, last.failure.kind) == ("error", "cancelled")


async def test_who_awaits_a_run_that_another_closes_is_told_and_not_cancelled() -> None:
    run = scripted([call("act", what="it"), hang()], act).run("?")
    async with anyio.create_task_group() as group:
        later(5, lambda: group.start_soon(run.aclose))
        with pytest.raises(RunFailed, match="cancelled") as caught:
            await run
    assert caught.value.failure.kind == "cancelled"
    assert [message.kind for message in caught.value.result.history] == [
        "prompt",
        "answer",
        "results",
    ]


@pytest.mark.parametrize("turns", [0, 1, 5])
async def test_awaiting_a_run_that_was_closed_tells_that_it_was_cancelled(turns: int) -> None:
    run = scripted([hang()]).run("?")
    run.steer("And?")
    async with run:
        for _ in range(turns):
            await asyncio.sleep(0)
    with pytest.raises(RunFailed) as caught:
        await run
    assert caught.value.failure.kind == "cancelled"
    result = caught.value.result
    told = [message.text for message in (*result.history, *result.undelivered)]
    assert told.count("And?") == 1


async def test_a_run_closed_before_its_start_cannot_be_started() -> None:
    agent = scripted(["Hi"])
    run = agent.run("?")
    await run.aclose()
    with pytest.raises(RunOver, match=r"start another"):
        await run
    assert await events_of(run) == []
    assert requests_of(agent) == []


async def test_closing_a_run_that_has_ended_changes_nothing() -> None:
    run = scripted(["Hi"]).run("?")
    result = await run
    await run.aclose()
    await run.aclose()
    assert await run is result


async def test_closing_waits_for_the_clean_up_of_a_tool() -> None:
    cleaned = []

    @tool
    async def tidy() -> str:
        """Leave nothing behind."""
        try:
            await anyio.sleep_forever()
        finally:
            await asyncio.sleep(2)
            cleaned.append(now())
        return ""

    async with scripted([call("tidy")], tidy).run("?"):
        await anyio.sleep(10)
    assert cleaned == [12.0]


@pytest.mark.parametrize("how", ["block", "await"])
async def test_a_cancelled_owner_waits_for_the_clean_up_of_a_tool(how: str) -> None:
    cleaned = []

    @tool
    async def tidy() -> str:
        """Leave nothing behind."""
        try:
            await anyio.sleep_forever()
        finally:
            await asyncio.sleep(2)
            cleaned.append(now())
        return ""

    with anyio.move_on_after(10):
        run = scripted([call("tidy")], tidy).run("?")
        if how == "await":
            await run
        async with run:
            await anyio.sleep_forever()
    assert cleaned == [12.0]
    assert running() == set()


async def test_closing_does_not_wait_for_ever_for_a_tool_that_does_not_stop() -> None:
    released = asyncio.Event()

    @tool
    async def stubborn() -> str:
        """Do not stop."""
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue
        return ""

    agent = scripted([call("stubborn")], stubborn, policy=Policy(calls=Calls(grace=3)))
    async with agent.run("?"):
        await anyio.sleep(10)
    assert now() == 13.0
    released.set()


async def test_a_tool_may_close_its_own_run() -> None:
    closing: Callable[[], Awaitable[None]]

    @tool
    async def end_it() -> str:
        """Close the run."""
        await closing()
        return ""

    run = scripted([call("end_it")], end_it).run("?")
    closing = run.aclose
    result = await outcome(run)
    assert result.failure is not None
    assert result.failure.kind == "cancelled"


# --- Dropping -----------------------------------------------------------------------------------


async def test_a_bare_break_ends_every_task_within_a_few_turns_of_the_loop() -> None:
    agent = scripted([[call("look", seconds=1000), hang()]], look)
    async for event in agent.run("?"):
        if type(event).__name__ == "ToolStarted":
            break
    await a_few_turns()
    assert running() == set()


async def test_a_break_at_the_first_event_ends_the_run() -> None:
    agent = scripted([hang()])
    async for _ in agent.run("?"):
        break
    await a_few_turns()
    assert running() == set()


async def test_a_cancelled_reader_ends_every_task_within_a_few_turns_of_the_loop() -> None:
    agent = scripted([[call("look", seconds=1000), hang()]], look)

    async def read() -> None:
        async for _ in agent.run("?"):
            pass

    task = asyncio.create_task(read())
    await anyio.sleep(1)
    assert "holdfast run" in running()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await a_few_turns()
    assert running() == set()


async def test_cancelling_who_awaits_ends_every_task_of_the_run() -> None:
    agent = scripted([[call("look", seconds=1000), hang()]], look)
    with anyio.move_on_after(5) as scope:
        await agent.run("?")
    assert scope.cancelled_caught
    assert running() == set()


async def test_who_reads_a_run_whose_awaiter_is_cancelled_sees_its_end() -> None:
    run = scripted([[say("abc", chunks=3), hang()]]).run("?")
    read: list[Event] = []

    async def read_all() -> None:
        read.extend([event async for event in run])

    async with anyio.create_task_group() as group:
        group.start_soon(read_all)
        await anyio.sleep(1)
        with anyio.move_on_after(1):
            await run
    assert check_events(read).reason == "error"


async def test_a_timeout_around_a_run_is_the_caller_s_timeout() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(5):
            await scripted([hang()]).run("?")
    assert now() == 5.0


async def test_a_started_run_that_is_dropped_ends() -> None:
    agent = scripted([[say("abc", chunks=3), hang()]])
    run = agent.run("?")
    reader = aiter(run)
    await anext(reader)
    assert running() == {"holdfast run"}
    del run, reader
    await a_few_turns()
    assert running() == set()


async def test_a_dropped_run_whose_reader_never_came_ends() -> None:
    agent = scripted([[say("x" * 500, chunks=500)]], policy=Policy(buffer=4))
    run = agent.run("?")
    aiter(run)
    await anyio.sleep(1)
    assert running() == {"holdfast run"}
    del run
    await a_few_turns()
    assert running() == set()


def test_a_run_outlives_its_event_loop_without_a_complaint() -> None:
    kept: list[Run] = []

    async def start() -> None:
        run = scripted([hang()]).run("?")
        kept.append(run)
        await first(run)

    asyncio.run(start())
    kept.clear()
    gc.collect()


async def test_a_model_is_asked_once_however_many_hold_the_run() -> None:
    agent = scripted([[pause(1), "Hi"]])
    run = agent.run("?")
    async with run:
        await asyncio.gather(run, events_of(run))
    assert len(requests_of(agent)) == 1
    assert model_of(agent).left == 0


async def test_what_a_closed_run_did_is_in_its_history_and_not_done_again() -> None:
    script = [[call("act", what="first"), call("act", what="second", seconds=99), call("act")]]
    agent = scripted([*script, "Done."], act)
    async with agent.run("?") as run:
        await anyio.sleep(1)
    told = results_in(run.history)
    assert {id: outcome for id, (outcome, _) in told.items()} == {
        "call_1": "ok",
        "call_2": "interrupted",
    }
    assert "may have taken effect" in told["call_2"][1]
    result = await agent.run(history=run.history)
    assert outcomes(result.new) == {"call_3": "ok"}


async def test_what_a_run_did_before_it_was_held_up_and_closed_is_in_its_history() -> None:
    def make(policy: Policy) -> Agent:
        return scripted([[call("act"), pause(1)], "Done."], act, eager="all", policy=policy)

    run = await held_up_after_its_answer(make)
    await run.aclose()
    assert outcomes(run.history) == {"call_1": "ok"}


async def test_what_ran_when_a_run_was_interrupted_and_closed_is_in_its_history() -> None:
    @tool
    async def tidy() -> str:
        """Take a while to stop."""
        try:
            await anyio.sleep_forever()
        finally:
            await asyncio.sleep(2)
        return ""

    async with scripted([call("tidy")], tidy).run("?") as run:
        await anyio.sleep(1)
        run.interrupt()
        await anyio.sleep(1)
    assert outcomes(run.history) == {"call_1": "interrupted"}


@pytest.mark.parametrize("how", ["closed", "owner cancelled"])
async def test_stopping_a_run_twice_waits_for_the_clean_up_of_a_tool(how: str) -> None:
    cleaned = []

    @tool
    async def tidy() -> str:
        """Leave nothing behind."""
        try:
            await anyio.sleep_forever()
        finally:
            await asyncio.sleep(2)
            cleaned.append(now())
        return ""

    run = scripted([call("tidy")], tidy).run("?")

    async def own() -> None:
        async with run:
            await outcome(run)

    async with anyio.create_task_group() as group:
        owner = asyncio.create_task(own())
        close = partial(group.start_soon, run.aclose)
        stop: Callable[[], object] = owner.cancel if how == "owner cancelled" else close
        later(1, stop)
        later(2, stop)
        await asyncio.wait([owner])
        assert cleaned == [3.0]


async def test_a_run_that_is_torn_down_twice_says_nothing_after_its_end() -> None:
    @tool
    async def tidy() -> str:
        """Take a while to stop."""
        try:
            await anyio.sleep_forever()
        finally:
            await asyncio.sleep(2)
        return ""

    run = scripted([call("tidy")], tidy).run("?")
    events: list[Event] = []

    async def read() -> None:
        events.extend(await events_of(run))

    reader = asyncio.create_task(read())
    await anyio.sleep(1)
    (task,) = [task for task in asyncio.all_tasks() if task.get_name() == "holdfast run"]
    task.cancel()
    later(1, task.cancel)
    await asyncio.wait([reader])
    check_events(events)
    assert now() == 2.0
    assert outcomes(run.history) == {"call_1": "interrupted"}
    await anyio.sleep(5)


async def test_the_prompt_of_a_run_that_never_began_is_in_its_history() -> None:
    run = scripted(["Hi"]).run("Keep me.")
    async with run:
        pass
    events = await events_of(run)
    check_events(events)
    assert [message.text for message in run.history] == ["Keep me."]


@pytest.mark.parametrize(
    "said",
    [
        Message("assistant", (ToolCall("c1", "act", "{}"),), "answer"),
        Message("user", (Text("x"),), "injected"),
        ToolCall("c1", "act", "{}"),
        [Text("x"), Reasoning("y")],
    ],
    ids=["an answer", "injected", "a call", "reasoning"],
)
async def test_only_what_a_user_may_say_can_be_said(said: Any) -> None:
    async with scripted([pause(1), "Hi"], act).run("?") as run:
        with pytest.raises(ConfigError):
            run.steer(said)


async def test_a_call_that_ran_from_the_stream_is_known_after_the_run_was_closed() -> None:
    agent = scripted([[call("act", what="it"), pause(60)]], act, eager="all")
    async with agent.run("?") as run:
        async for event in run:
            if isinstance(event, ToolFinished):
                break
    assert kinds(run.history) == ["prompt", "answer", "results"]
    assert run.history[2].results[0].text == "did it"
