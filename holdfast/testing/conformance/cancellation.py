"""Conformance cases: cancelled streams and concurrent requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

import anyio

from holdfast.kernel.model import Delta, Finished, Notice, Opened, Ping, TextDelta, close
from holdfast.testing.conformance.bench import (
    LOOP_TURNS,
    TIMEOUT,
    Bench,
    ask,
    collect,
    demand,
    demand_all_closed,
    until_content,
)
from holdfast.testing.conformance.case import Case, case
from holdfast.testing.script import hang, say


async def _cancel_while_reading(
    stream: AsyncIterator[Delta], requested: anyio.Event | None = None
) -> None:
    """Cancel a task that waits for the next delta, and demand that it ends as cancelled."""
    reading = asyncio.create_task(_next_content(stream))
    if requested is not None:
        waiting = asyncio.create_task(requested.wait())
        await asyncio.wait([reading, waiting], timeout=TIMEOUT, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
    for _ in range(LOOP_TURNS):
        await asyncio.sleep(0)
    reading.cancel()
    done, _ = await asyncio.wait([reading], timeout=TIMEOUT)
    demand(done, f"it went on for {TIMEOUT:g} s after it was cancelled")
    if not reading.cancelled():
        outcome = reading.exception() or reading.result()
        raise AssertionError(f"cancelled while it waited, it gave {outcome!r}")
    demand(requested is None or requested.is_set(), f"it sent no request within {TIMEOUT:g} s")


async def _next_content(stream: AsyncIterator[Delta]) -> Delta | None:
    async for delta in stream:
        if not isinstance(delta, (Ping, Opened, Notice)):
            return delta
    return None


@case()
async def cancelled_in_the_middle_it_lets_go(bench: Bench) -> None:
    """A task that is cancelled during an answer has released its connection then."""
    async with bench.playing([say("Once upon"), hang()]) as subject:
        stream = subject.model.stream(ask())
        await until_content(stream)
        await _cancel_while_reading(stream)
        await close(stream)
        await demand_all_closed(subject)


@case()
async def cancelled_before_the_answer_it_lets_go(bench: Bench) -> None:
    """A task that is cancelled before the first content has released its connection then."""
    requested = anyio.Event()
    async with bench.playing([lambda request: requested.set(), hang()], say("Yes.")) as subject:
        stream = subject.model.stream(ask())
        await _cancel_while_reading(stream, requested)
        await close(stream)
        await demand_all_closed(subject)
        message = (await collect(subject.model, ask())).message
        demand(message.text == "Yes.", f"the next answer is {message.text!r}")


@case()
async def closed_half_way_it_lets_go(bench: Bench) -> None:
    """A stream that is closed halfway releases its connection, and a new request is answered."""
    async with bench.playing([say("Once upon"), hang()], say("Yes.")) as subject:
        stream = subject.model.stream(ask())
        await until_content(stream)
        with anyio.fail_after(TIMEOUT):
            await close(stream)
        await demand_all_closed(subject)
        message = (await collect(subject.model, ask())).message
        demand(message.text == "Yes.", f"the next answer is {message.text!r}")


@case()
async def read_to_its_end_it_lets_go(bench: Bench) -> None:
    """A stream that has ended keeps no connection open."""
    async with bench.playing(bench.rich()) as subject:
        _ = (await collect(subject.model, ask())).message
        await demand_all_closed(subject)


@case()
async def two_streams_do_not_mix(bench: Bench) -> None:
    """Two concurrent answers do not mix."""
    gate = anyio.Event()
    first = [say("one "), gate, say("three")]
    async with bench.playing(first, say("two", chunks=2)) as subject:
        stream = subject.model.stream(ask("The first?"))
        deltas = [await until_content(stream)]
        between = (await collect(subject.model, ask("The second?"))).message
        gate.set()
        deltas += [delta async for delta in stream]
        text = "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))
        demand((text, between.text) == ("one three", "two"), f"{text!r} and {between.text!r} came")
        demand(any(isinstance(delta, Finished) for delta in deltas), "the first did not finish")
        await demand_all_closed(subject)


CASES: Final[tuple[Case, ...]] = (
    cancelled_in_the_middle_it_lets_go,
    cancelled_before_the_answer_it_lets_go,
    closed_half_way_it_lets_go,
    read_to_its_end_it_lets_go,
    two_streams_do_not_mix,
)
