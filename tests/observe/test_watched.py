"""A model that is watched is heard as it is, and what came of asking it is told once."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio
import pytest

from holdfast.kernel.messages import Message, Text, Usage
from holdfast.kernel.model import Delta, Finished, Notice, Ping, Request, TextDelta
from holdfast.observe.observer import ChatObserver, ModelCallOutcome, ObservedModel

HELLO = Request(messages=(Message("user", (Text("Hello?"),), "prompt"),))


class Slow:
    """Shows at once that it is alive, and takes its time to say something."""

    name = "test:slow"
    window = None

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        yield Notice("A file was left out.")
        yield Ping()
        await anyio.sleep(3)
        yield TextDelta("Hello.")
        yield Finished(usage=Usage(5, 2))


class Ear(ChatObserver):
    def __init__(self) -> None:
        self.heard: list[ModelCallOutcome] = []

    def answered(self, outcome: ModelCallOutcome) -> None:
        self.heard.append(outcome)


class Cut(Slow):
    """Counts what went in, and is lost before it has said anything."""

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        yield Ping(Usage(5))
        raise ConnectionError


async def test_what_was_counted_of_an_answer_that_was_cut_is_told() -> None:
    ear = Ear()
    with pytest.raises(ConnectionError):
        async for _ in ObservedModel(Cut(), ear, anyio.current_time).stream(HELLO):
            pass
    (said,) = ear.heard
    assert (said.usage, said.finish) == (Usage(5), None)


async def test_signs_of_life_are_not_the_first_delta_of_an_answer() -> None:
    ear = Ear()
    watched = ObservedModel(Slow(), ear, anyio.current_time)
    deltas = [delta async for delta in watched.stream(HELLO)]
    (said,) = ear.heard
    assert len(deltas) == 4
    assert (said.usage, said.finish) == (Usage(5, 2), "stop")
    assert said.first == pytest.approx(3)
