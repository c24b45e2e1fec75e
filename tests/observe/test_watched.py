"""An observer of model calls is notified once of each, with what was counted."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio
import pytest

from holdfast import Agent
from holdfast.errors import RunFailed
from holdfast.kernel.messages import Usage
from holdfast.kernel.model import Delta, Finished, Notice, Ping, Request, TextDelta
from holdfast.kernel.observer import ChatObserver, ModelCallOutcome, Observer, Stretch
from holdfast.options import Policy, Retry


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


class Ear(ChatObserver, Observer):
    def __init__(self) -> None:
        self.heard: list[ModelCallOutcome] = []

    def drives(self, stretch: Stretch) -> ChatObserver:
        return self

    def answered(self, outcome: ModelCallOutcome) -> None:
        self.heard.append(outcome)


class Cut(Slow):
    """Counts what went in, and is lost before it has said anything."""

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        yield Ping(Usage(5))
        raise ConnectionError


async def test_what_was_counted_of_an_answer_that_was_cut_is_told() -> None:
    ear = Ear()
    with pytest.raises(RunFailed):
        await Agent(model=Cut(), observer=ear, policy=Policy(retry=Retry(attempts=1))).run("Hello?")
    (said,) = ear.heard
    assert (said.usage, said.finish) == (Usage(5), None)


async def test_signs_of_life_are_not_the_first_delta_of_an_answer() -> None:
    ear = Ear()
    await Agent(model=Slow(), observer=ear).run("Hello?")
    (said,) = ear.heard
    assert (said.usage, said.finish) == (Usage(5, 2), "stop")
    assert said.first == pytest.approx(3)
