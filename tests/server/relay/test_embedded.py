"""The relay of processes that open the same database with `holdfast.open`."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest

import holdfast
from holdfast import Agent, Chat, Host
from holdfast.errors import ConfigError
from holdfast.events import LiveDelta, TextDelta
from holdfast.options import RelayOptions, WorkerOptions
from tests.server.relay.cluster import Spoken, run, until

SECRET: Final = "a secret of more than sixteen"
LOCAL: Final = RelayOptions(secret=SECRET)


@asynccontextmanager
async def opened(
    url: str, model: Spoken, relay: RelayOptions | None = LOCAL, drives: bool = True
) -> AsyncIterator[Host]:
    worker = WorkerOptions(grace=1.0) if drives else None
    agents = [Agent(model=model)]
    async with holdfast.open(url, agents, worker=worker, titles=False, relay=relay) as host:
        yield host


async def read(chat: Chat, seen: list[str]) -> None:
    async for event in chat.stream():
        if isinstance(event, LiveDelta) and isinstance(event.fragment, TextDelta):
            seen.append(event.fragment.text)


@pytest.mark.parametrize("drives", [True, False], ids=["with a worker", "without a worker"])
def test_a_process_streams_the_tokens_of_a_chat_that_another_one_runs(
    postgres_url: str, drives: bool
) -> None:
    async def test() -> None:
        model, seen = Spoken(), list[str]()
        async with opened(postgres_url, model) as owner:
            chat = await owner.create("go")
            await until_driven(chat)
            async with opened(postgres_url, model, drives=drives) as other:
                reading = asyncio.create_task(read(await other.chat(chat.id), seen))
                model.say("one ")
                await until(lambda: "".join(seen) == "one ")
                model.say("two")
                await until(lambda: "".join(seen) == "one two")
                model.end()
                await reading

    run(test())


def test_without_a_relay_it_sees_the_answer_when_it_is_whole(postgres_url: str) -> None:
    async def test() -> None:
        model, seen = Spoken(), list[str]()
        async with opened(postgres_url, model) as owner:
            chat = await owner.create("go")
            await until_driven(chat)
            async with opened(postgres_url, model, None, drives=False) as other:
                reading = asyncio.create_task(read(await other.chat(chat.id), seen))
                model.say("one ")
                own: list[str] = []
                watching = asyncio.create_task(read(chat, own))
                await until(lambda: own == ["one "])
                model.end()
                await asyncio.gather(reading, watching)
                assert seen == []

    run(test())


async def until_driven(chat: Chat) -> None:
    while not (await chat.read()).epoch:  # noqa: ASYNC110 - a worker does it
        await asyncio.sleep(0.01)


def test_on_sqlite_there_is_nothing_to_relay() -> None:
    async def test() -> None:
        async with opened("sqlite:///:memory:", Spoken(), RelayOptions(secret=SECRET)) as host:
            await host.create(None)

    run(test())


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"listen": "0.0.0.0:8701"}, "listens on all addresses .*: set advertise to the URL"),
        ({"listen": "nowhere"}, "'nowhere' is not an address to listen on"),
        ({"secret": "short"}, "secret has a secret of fewer than 16 characters"),
        ({"tick": 0.0}, r"tick is 0\.0: use seconds, more than 0"),
    ],
)
def test_options_that_cannot_work_are_refused(options: Mapping[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        RelayOptions(**options)


def refused(url: str, relay: Any) -> str:
    async def test() -> None:
        async with opened(url, Spoken(), relay):
            pass

    with pytest.raises(ConfigError) as raised:
        run(test())
    return str(raised.value)


def test_a_relay_needs_a_secret_an_address_and_to_be_options(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOLDFAST_CLUSTER_SECRET", raising=False)
    assert "set HOLDFAST_CLUSTER_SECRET, or RelayOptions(secret=…)" in refused(
        postgres_url, RelayOptions()
    )
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        why = refused(postgres_url, RelayOptions(secret=SECRET, listen=listen))
        assert f"the relay's address {listen} is in use: set listen to another port" in why
    assert "relay is True: use RelayOptions(…)" in refused(postgres_url, True)


def test_the_secret_is_not_shown() -> None:
    assert SECRET not in repr(LOCAL)
