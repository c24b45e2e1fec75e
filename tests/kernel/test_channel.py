from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Agent, ToolContext, tool
from holdfast.kernel.channel import Channel
from holdfast.kernel.events import Event, RunEnded, ToolFinished, ToolProgressed, Warned
from holdfast.options import Policy
from holdfast.testing import ScriptedModel, call, ports, say


def event(number: int) -> Event:
    return Warned(str(number))


def filled(size: int, count: int) -> Channel:
    channel = Channel(size)
    for number in range(count):
        channel.put(event(number))
    return channel


async def rest(channel: Channel) -> list[Event]:
    """What is left in a channel that is closed."""
    events = []
    while (one := await channel.get()) is not None:
        events.append(one)
    return events


async def ends_soon(wait: Callable[[], Awaitable[object]]) -> bool:
    with anyio.move_on_after(1) as scope:
        await wait()
    return not scope.cancelled_caught


# --- Delivery -----------------------------------------------------------------------------------


async def test_events_come_out_in_the_order_in_which_they_went_in() -> None:
    channel = filled(4, 10)
    channel.close()
    assert await rest(channel) == [event(number) for number in range(10)]


async def test_nothing_is_lost_however_far_the_buffer_is_overshot() -> None:
    channel = filled(1, 1_000)
    channel.close()
    assert len(await rest(channel)) == 1_000


async def test_a_reader_that_waits_is_woken_by_an_event() -> None:
    channel = Channel(4)
    async with anyio.create_task_group() as group:
        reader = group.create_task(channel.get())
        await anyio.sleep(1)
        channel.put(event(1))
    assert reader.return_value == event(1)


async def test_a_reader_that_waits_is_told_of_the_end() -> None:
    channel = Channel(4)
    async with anyio.create_task_group() as group:
        reader = group.create_task(channel.get())
        await anyio.sleep(1)
        channel.close()
    assert reader.return_value is None


async def test_the_end_comes_after_the_last_event_and_stays() -> None:
    channel = filled(4, 1)
    channel.close()
    assert [await channel.get() for _ in range(3)] == [event(0), None, None]


async def test_a_reader_that_gave_up_waiting_loses_no_event() -> None:
    channel = Channel(4)
    with anyio.move_on_after(1):
        await channel.get()
    channel.put(event(1))
    assert await channel.get() == event(1)


async def test_every_reader_that_waits_is_told_of_the_end() -> None:
    channel = Channel(4)
    async with anyio.create_task_group() as group:
        readers = [group.create_task(channel.get()) for _ in range(3)]
        await anyio.sleep(1)
        channel.put(event(1))
        channel.put(event(2))
        await anyio.sleep(1)
        channel.close()
    seen = [reader.return_value for reader in readers]
    assert seen.count(None) == 1
    assert event(1) in seen
    assert event(2) in seen


# --- Back-pressure ------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 3, 64])
async def test_a_channel_is_full_when_it_holds_as_many_as_its_size(size: int) -> None:
    assert not filled(size, size - 1).full
    assert filled(size, size).full


async def test_a_channel_that_is_not_full_has_room_at_once() -> None:
    assert await ends_soon(filled(4, 3).room)


async def test_a_writer_waits_until_the_reader_has_caught_up_with_half() -> None:
    channel = filled(4, 4)
    async with anyio.create_task_group() as group:
        writer = group.create_task(channel.room())
        await channel.get()
        await anyio.sleep(1)
        assert writer.status.name == "PENDING"
        await channel.get()
        await anyio.sleep(1)
        assert writer.status.name == "FINISHED"


async def test_every_writer_that_waits_is_woken() -> None:
    """Tools that run together, and the stream that started them, all wait for the same reader."""
    channel = filled(2, 2)
    async with anyio.create_task_group() as group:
        writers = [group.create_task(channel.room()) for _ in range(3)]
        await anyio.sleep(1)
        await channel.get()
        await channel.get()
        await anyio.sleep(1)
        assert [writer.status.name for writer in writers] == ["FINISHED"] * 3


async def test_a_writer_that_is_cancelled_does_not_take_the_others_along() -> None:
    channel = filled(2, 2)
    async with anyio.create_task_group() as group:
        kept = group.create_task(channel.room())
        with anyio.move_on_after(1):
            await channel.room()
        await channel.get()
        await anyio.sleep(1)
        assert kept.status.name == "FINISHED"


async def test_a_released_channel_never_makes_anybody_wait_and_keeps_what_it_has() -> None:
    channel = filled(2, 2)
    async with anyio.create_task_group() as group:
        writer = group.create_task(channel.room())
        await anyio.sleep(1)
        channel.release()
        await anyio.sleep(1)
        assert writer.status.name == "FINISHED"
    for number in range(2, 10):
        channel.put(event(number))
    assert not channel.full
    channel.close()
    assert await rest(channel) == [event(number) for number in range(10)]


async def test_an_abandoned_channel_holds_nothing_and_nobody() -> None:
    channel = filled(2, 2)
    channel.abandon()
    for number in range(10):
        channel.put(event(number))
    assert not channel.full
    assert await ends_soon(channel.room)
    channel.close()
    assert await rest(channel) == []


async def test_an_abandoned_channel_has_what_comes_once_somebody_listens_again() -> None:
    channel = filled(2, 2)
    channel.abandon()
    channel.put(event(2))
    channel.listen()
    channel.put(event(3))
    channel.put(event(4))
    assert channel.full
    channel.close()
    assert await rest(channel) == [event(3), event(4)]


async def test_listening_to_a_channel_that_nobody_left_loses_nothing() -> None:
    channel = filled(2, 2)
    channel.listen()
    channel.close()
    assert await rest(channel) == [event(0), event(1)]


async def test_taking_never_waits() -> None:
    channel = filled(2, 1)
    assert channel.take() == event(0)
    assert channel.take() is None


@given(
    size=st.integers(1, 8),
    counts=st.lists(st.integers(0, 5), max_size=20),
    naps=st.lists(st.integers(0, 3), min_size=1, max_size=5),
)
async def test_a_writer_that_asks_for_room_never_overshoots_by_more_than_one_burst(
    size: int, counts: list[int], naps: list[int]
) -> None:
    channel = Channel(size)
    waiting = most = 0
    seen: list[Event] = []

    async def write() -> None:
        nonlocal waiting, most
        for count in counts:
            for _ in range(count):
                channel.put(event(0))
                waiting += 1
            most = max(most, waiting)
            if channel.full:
                await channel.room()
        channel.close()

    async def read() -> None:
        nonlocal waiting
        while (one := await channel.get()) is not None:
            waiting -= 1
            seen.append(one)
            await anyio.sleep(naps[len(seen) % len(naps)])

    async with anyio.create_task_group() as group:
        group.start_soon(write)
        group.start_soon(read)
    assert len(seen) == sum(counts)
    assert most <= size - 1 + max(counts, default=0)


# --- In a run -----------------------------------------------------------------------------------


@pytest.mark.parametrize("buffer", [1, 2, 7, 64])
async def test_a_slow_reader_gets_every_event(buffer: int) -> None:
    text = "".join(chr(ord("a") + number % 26) for number in range(200))
    model = ScriptedModel([say(text, chunks=200)])
    agent = Agent(model=model, policy=Policy(buffer=buffer))
    shown = ""
    last: Event | None = None
    async for one in agent.run("Go."):
        await anyio.sleep(1)
        shown += getattr(one, "text", "")
        last = one
    assert shown == text
    assert isinstance(last, RunEnded)


async def test_a_slow_reader_slows_the_stream() -> None:
    sent: list[float] = []

    def note(request: object) -> None:
        sent.append(asyncio.get_running_loop().time())

    model = ScriptedModel([[[say("x"), note] for _ in range(20)]])
    agent = Agent(model=model, policy=Policy(buffer=4))
    async for _ in agent.run("Go."):
        await anyio.sleep(10)
    assert sent[-1] > 100


async def test_parallel_tools_that_report_to_a_slow_reader_all_come_to_their_end() -> None:
    @tool(effect="pure")
    async def work(context: ToolContext, name: str) -> str:
        """Work, and talk about it."""
        for number in range(5):
            await context.progress(f"{name} {number}")
        return name

    calls = [call("work", name=name) for name in "abc"]
    agent = Agent(
        model=ScriptedModel([calls, "Done."]),
        tools=[work],
        policy=Policy(buffer=1),
        ports=ports(),
    )
    events: list[Event] = []
    async for one in agent.run("Go."):
        await anyio.sleep(1)
        events.append(one)
    assert len([one for one in events if isinstance(one, ToolProgressed)]) == 15
    finished = [one.result.outcome for one in events if isinstance(one, ToolFinished)]
    assert finished == ["ok", "ok", "ok"]
    assert isinstance(events[-1], RunEnded)
    assert events[-1].reason == "stop"
