"""The fake provider itself: the same script in memory and on loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from holdfast import Agent
from holdfast.errors import ConfigError, RunFailed
from holdfast.events import TextDelta
from holdfast.models import Model
from holdfast.providers.anthropic import Anthropic
from holdfast.providers.http import SHARED_CLIENT
from holdfast.testing import FakeProvider, endless, fail, lost, opens, respond, say

Reached = Callable[[FakeProvider], AbstractAsyncContextManager[Model]]


@asynccontextmanager
async def in_memory(fake: FakeProvider) -> AsyncIterator[Model]:
    yield Anthropic("claude-opus-5-5", api_key="k", http=fake)


@asynccontextmanager
async def on_loopback(fake: FakeProvider) -> AsyncIterator[Model]:
    async with fake.serve() as base_url:
        yield Anthropic("claude-opus-5-5", api_key="k", base_url=base_url)
        await SHARED_CLIENT.close()


both = pytest.mark.parametrize("reached", [in_memory, on_loopback])


@both
async def test_a_script_that_has_ended_fails_the_run_at_once_and_says_so(reached: Reached) -> None:
    fake = FakeProvider("anthropic", ["One."])
    async with reached(fake) as model:
        assert (await Agent(model=model).run("1")).text == "One."
        with pytest.raises(RunFailed, match="the script has 1 turn"):
            await Agent(model=model).run("2")
    assert len(fake.requests) == 2


@both
async def test_a_refusal_has_its_status_its_body_and_its_headers(reached: Reached) -> None:
    fake = FakeProvider("anthropic", [respond(418, "short and stout", {"X-Should-Retry": "false"})])
    async with reached(fake) as model:
        with pytest.raises(RunFailed, match="short and stout") as caught:
            await Agent(model=model).run("Tea?")
    assert caught.value.failure.status == 418


@both
async def test_what_was_said_before_a_connection_broke_arrives(reached: Reached) -> None:
    fake = FakeProvider("anthropic", [[say("Half"), lost()], "Whole."])
    shown = []
    async with reached(fake) as model:
        async for event in Agent(model=model).run("Well?"):
            if isinstance(event, TextDelta):
                shown.append(event.text)
    assert shown == ["Half", "Whole."]
    assert fake.left == 0
    assert fake.open == 0


async def test_a_mistake_in_a_script_reaches_the_test_as_it_is() -> None:
    def broken(received: Any) -> None:
        raise KeyError("typo")

    fake = FakeProvider("anthropic", [[opens(), broken]], default=fail(status=400))
    with pytest.raises(KeyError, match="typo"):
        async with fake.serve() as base_url:
            model = Anthropic("m", api_key="k", base_url=base_url)
            with pytest.raises(RunFailed):
                await Agent(model=model).run("Well?")
            await SHARED_CLIENT.close()


async def test_what_the_block_raises_leaves_it_as_it_is() -> None:
    with pytest.raises(ZeroDivisionError):
        async with FakeProvider("anthropic").serve():
            raise ZeroDivisionError


async def test_a_stream_without_end_ends_with_the_server() -> None:
    fake = FakeProvider("anthropic", [endless(TextDelta("again "))])
    async with fake.serve() as base_url:
        model = Anthropic("m", api_key="k", base_url=base_url)
        async with Agent(model=model).run("Go.") as run:
            async for event in run:
                if isinstance(event, TextDelta):
                    break
        await SHARED_CLIENT.close()
    assert fake.open == 0


def test_a_protocol_that_nobody_speaks_is_refused_with_those_that_are_spoken() -> None:
    with pytest.raises(ConfigError, match=r"use one of anthropic, google, openai_chat"):
        FakeProvider("openai-chat")  # type: ignore[arg-type]
