"""A reader that is slow, absent or gone: the run is slowed, loses nothing, and can be stopped."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import anyio

from holdfast import Agent, ToolContext, tool
from holdfast.events import Event
from holdfast.kernel.events import ToolFinished, ToolProgressed
from holdfast.kernel.model import Delta, Finished, TextDelta
from holdfast.models import Request
from holdfast.options import Policy
from holdfast.testing import call
from tests.kernel.runs import (
    a_few_turns,
    check_events,
    names,
    now,
    only,
    running,
    scripted,
)


class Fountain:
    """A model that never stops to take breath, and counts what it gave."""

    name = "fountain:model"
    window = None

    def __init__(self, deltas: int) -> None:
        self.deltas = deltas
        self.given = 0
        self.closed = False

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        try:
            for _ in range(self.deltas):
                self.given += 1
                yield TextDelta("x")
            yield Finished()
        finally:
            self.closed = True


def fountain(deltas: int, **options: Any) -> tuple[Fountain, Agent]:
    model = Fountain(deltas)
    return model, scripted([], **options).replace(model=model)


async def test_a_reader_that_stops_reading_stops_the_model() -> None:
    model, agent = fountain(10_000)
    async with agent.run("?") as run:
        reader = aiter(run)
        for _ in range(10):
            await anext(reader)
        await anyio.sleep(3600)
        assert model.given <= 10 + Policy().buffer + 1
        assert not model.closed
    assert model.closed


async def test_a_slow_reader_loses_nothing() -> None:
    model, agent = fountain(1_000, policy=Policy(buffer=8))
    most = 0
    events: list[Event] = []
    async for event in agent.run("?"):
        events.append(event)
        most = max(most, model.given - len(only(TextDelta, events[-1:])) - len(events))
        await anyio.sleep(1)
    assert check_events(events).reason == "stop"
    assert len(only(TextDelta, events)) == 1_000
    assert most <= 8 + 1


async def test_a_reader_that_is_away_for_long_is_not_taken_for_a_silent_model() -> None:
    model, agent = fountain(200, policy=Policy(buffer=8))
    run = agent.run("?")
    events: list[Event] = []
    async for event in run:
        events.append(event)
        if len(events) == 20:
            await anyio.sleep(80_000)
    assert check_events(events).reason == "stop"
    assert "Retrying" not in names(events)
    assert model.given == 200


async def test_a_slow_reader_slows_the_tools_that_report_to_it() -> None:
    reported = []

    @tool
    async def chatter(context: ToolContext) -> str:
        """Report a lot."""
        for number in range(100):
            await context.progress(str(number))
            reported.append(number)
        return "said"

    agent = scripted([call("chatter"), "Done."], chatter, policy=Policy(buffer=8))
    events: list[Event] = []
    async for event in agent.run("?"):
        events.append(event)
        assert len(reported) <= len(events) + 8
        await anyio.sleep(1)
    check_events(events)
    assert [event.text for event in only(ToolProgressed, events)] == [str(n) for n in range(100)]


async def test_several_tools_that_wait_for_a_slow_reader_all_go_on() -> None:
    @tool(effect="pure")
    async def chatter(context: ToolContext, name: str) -> str:
        """Report a lot."""
        for number in range(20):
            await context.progress(f"{name}{number}")
        return name

    calls = [call("chatter", name=name) for name in "abcde"]
    agent = scripted([calls, "Done."], chatter, policy=Policy(buffer=2))
    events: list[Event] = []
    async for event in agent.run("?"):
        events.append(event)
        await anyio.sleep(1)
    check_events(events)
    assert len(only(ToolProgressed, events)) == 100
    assert len(only(ToolFinished, events)) == 5


async def test_an_absent_reader_cannot_hold_up_an_interrupt() -> None:
    model, agent = fountain(10_000)
    run = agent.run("?")
    aiter(run)  # started, and nobody reads
    await anyio.sleep(10)
    assert model.given <= Policy().buffer + 1
    run.interrupt()
    await a_few_turns()
    assert running() == set()
    assert (await run).reason == "interrupted"
    assert model.closed


async def test_after_an_interrupt_a_reader_still_gets_everything_to_the_end() -> None:
    _, agent = fountain(10_000)
    run = agent.run("?")
    reader = aiter(run)
    await anyio.sleep(10)
    run.interrupt()
    events = [event async for event in reader]
    assert check_events(events).reason == "interrupted"
    shown = "".join(delta.text for delta in only(TextDelta, events))
    assert run.history[1].text == shown


async def test_an_absent_reader_cannot_hold_up_the_interrupt_of_tools() -> None:
    @tool
    async def chatter(context: ToolContext) -> str:
        """Report for ever."""
        while True:
            await context.progress("and another thing")

    run = scripted([call("chatter")], chatter).run("?")
    aiter(run)
    await anyio.sleep(10)
    run.interrupt()
    result = await run
    assert result.reason == "interrupted"
    assert now() == 10.0


async def test_a_reader_can_interrupt_a_model_that_never_takes_breath() -> None:
    model, agent = fountain(1_000_000)
    run = agent.run("?")
    async for event in run:
        if isinstance(event, TextDelta):
            run.interrupt()
    assert model.given < 1_000
    assert (await run).reason == "interrupted"


async def test_a_model_that_never_takes_breath_does_not_stop_the_event_loop() -> None:
    """Nobody reads, so nothing holds the model up: it must let others run all the same."""
    model, agent = fountain(500_000)
    run = agent.run("?")
    asyncio.get_running_loop().call_soon(
        lambda: asyncio.get_running_loop().call_soon(run.interrupt)
    )
    result = await run
    assert result.reason == "interrupted"
    assert model.given < 10_000


async def test_the_stream_of_a_model_is_closed_when_its_run_is() -> None:
    model, agent = fountain(10_000)
    async with agent.run("?") as run:
        await anext(aiter(run))
    assert model.closed
