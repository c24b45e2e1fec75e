"""A chat gets a title after its first turn, and nothing of that can disturb the chat."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from holdfast.agent import Agent
from holdfast.chat.handle import Chat
from holdfast.chat.host import Host
from holdfast.host import serving
from holdfast.kernel.model import Model, Request
from holdfast.kernel.title import is_title_request
from holdfast.store.database import Database, Tx
from holdfast.testing import Clock, ScriptedModel, fail, hang, pause, usage
from holdfast.worker.titles import AT_ONCE
from tests.worker.lives import world_of


@asynccontextmanager
async def hosting(
    db: Database,
    clock: Clock,
    script: Sequence[Any],
    titles: bool | Model = True,
    seed: int = 0,
) -> AsyncIterator[Host]:
    world = world_of(clock, seed)
    agent = Agent(model=ScriptedModel(script), ports=world)
    async with serving(db, [agent], ports=world, titles=titles) as host:
        yield host


async def titled(chat: Chat) -> tuple[str | None, str | None]:
    """Who has named it what, once there was time for it."""
    await chat.rest()
    await anyio.sleep(60)
    now = await chat.read()
    return now.title, now.titled_by


async def charges(db: Database) -> list[tuple[Any, ...]]:
    async def read(tx: Tx) -> list[tuple[Any, ...]]:
        rows = await tx.fetch("SELECT purpose, input, output FROM usage ORDER BY id")
        return [tuple(row) for row in rows]

    return await db.read(read)


async def test_a_chat_is_named_by_its_own_model_after_its_first_turn(
    db: Database, clock: Clock
) -> None:
    asked: list[Request] = []

    def name_it(request: Request) -> Any:
        asked.append(request)
        return ['"Tests are **fixed**."', usage(input=30, output=5)]

    async with hosting(db, clock, ["They are fixed.", name_it, "Linted."]) as host:
        chat = await host.create("fix the tests")
        assert await titled(chat) == ("Tests are fixed", "model")
        await chat.send("and lint")
        assert (await titled(chat))[0] == "Tests are fixed"
        spent = await chat.usage()
    (request,) = asked
    assert is_title_request(request)
    assert "fix the tests" in request.messages[0].text
    assert "They are fixed." in request.messages[0].text
    assert await charges(db) == [("title", 30, 5)]
    assert (spent.usage.input, spent.usage.output) == (30, 5)


async def test_another_model_can_be_asked_for_titles(db: Database, clock: Clock) -> None:
    small = ScriptedModel(["A small title"])
    async with hosting(db, clock, ["Fixed."], titles=small) as host:
        assert await titled(await host.create("fix")) == ("A small title", "model")


async def test_titles_can_be_switched_off(db: Database, clock: Clock) -> None:
    async with hosting(db, clock, ["Fixed."], titles=False) as host:
        assert await titled(await host.create("fix")) == (None, None)


async def test_a_chat_that_has_a_title_is_not_named(db: Database, clock: Clock) -> None:
    async with hosting(db, clock, ["Fixed."]) as host:
        assert await titled(await host.create("fix", title="Mine")) == ("Mine", "person")


async def test_a_person_who_renames_meanwhile_wins_and_the_title_is_paid_for(
    db: Database, clock: Clock
) -> None:
    script = ["Fixed.", [pause(5), "Too late", usage(input=1, output=1)]]
    async with hosting(db, clock, script) as host:
        chat = await host.create("fix")
        await chat.rest()
        await anyio.sleep(1)
        await chat.rename("Mine")
        assert await titled(chat) == ("Mine", "person")
    assert await charges(db) == [("title", 1, 1)]


async def test_a_title_of_a_chat_that_is_archived_meanwhile_is_paid_for_and_not_given(
    db: Database, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    script = ["Fixed.", [pause(5), "Too late", usage(input=1, output=1)]]
    async with hosting(db, clock, script) as host:
        chat = await host.create("fix")
        await chat.rest()
        await anyio.sleep(1)
        before = await chat.archive()
        assert await titled(chat) == (None, None)
        assert (await chat.read()).snapshot_version == before.snapshot_version
    assert await charges(db) == [("title", 1, 1)]
    assert caplog.text == ""


@pytest.mark.parametrize("said", [["..."], []], ids=["dots", "nothing"])
async def test_what_is_no_title_is_paid_for_all_the_same(
    db: Database, clock: Clock, said: list[Any]
) -> None:
    spent = usage(input=1, output=1)
    script = ["Fixed.", [*said, spent], "Two.", ["A title", usage(input=2)]]
    async with hosting(db, clock, script) as host:
        chat = await host.create("fix")
        assert await titled(chat) == (None, None)
        assert await charges(db) == [("title", 1, 1)]
        await chat.send("more")
        assert await titled(chat) == ("A title", "model")
        assert (await chat.usage()).usage.input == 3


@pytest.mark.parametrize(
    "trouble",
    [lambda: fail(status=503), hang, lambda: "...", lambda: fail(KeyError("ours"))],
    ids=["fails", "hangs", "says nothing", "breaks"],
)
async def test_a_title_that_fails_leaves_no_trace_and_is_tried_again_after_the_next_turn(
    db: Database, clock: Clock, trouble: Callable[[], Any], caplog: pytest.LogCaptureFixture
) -> None:
    async with hosting(db, clock, ["One.", trouble(), "Two.", "A title"]) as host:
        chat = await host.create("fix")
        before = await chat.rest()
        with caplog.at_level(logging.WARNING, "holdfast.worker"):
            assert await titled(chat) == (None, None)
        assert f"chat {chat.id} has no title yet" in caplog.text
        assert await chat.read() == before.chat
        assert await charges(db) == []
        await chat.send("more")
        assert await titled(chat) == ("A title", "model")


async def test_a_turn_that_failed_asks_nobody_for_a_title(db: Database, clock: Clock) -> None:
    async with hosting(db, clock, [fail(kind="auth"), "Two.", "A title"]) as host:
        chat = await host.create("fix")
        assert await titled(chat) == (None, None)
        await chat.retry()
        assert await titled(chat) == ("A title", "model")
        assert (await chat.rest()).text == "Two."


async def test_a_turn_is_not_held_up_by_a_title(db: Database, clock: Clock) -> None:
    async with hosting(db, clock, ["One.", hang(), "Two.", "A title"]) as host:
        chat = await host.create("fix")
        await chat.rest()
        await anyio.sleep(1)
        await chat.send("more")
        with anyio.fail_after(1):
            assert (await chat.rest()).text == "Two."


async def test_a_chat_that_is_deleted_meanwhile_is_not_missed(
    db: Database, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    async with hosting(db, clock, ["One.", [pause(5), "Too late"]]) as host:
        chat = await host.create("fix")
        await chat.rest()
        await anyio.sleep(1)
        await chat.delete()
        await anyio.sleep(10)
    assert caplog.text == ""


async def test_a_chat_whose_process_ended_after_its_only_turn_is_named_by_the_next(
    db: Database, clock: Clock
) -> None:
    async with hosting(db, clock, ["One.", [pause(5), "Too late", usage(input=1)]]) as host:
        chat = await host.create("fix")
        await chat.rest()
    async with hosting(db, clock, [["A title", usage(input=2)]], seed=1) as host:
        chat = await host.chat(chat.id)
        assert await titled(chat) == ("A title", "model")
    assert await charges(db) == [("title", 2, 0)]


async def test_a_start_asks_for_no_titles_but_those_of_recent_chats_at_rest(
    db: Database, clock: Clock
) -> None:
    asked: list[str] = []

    def name_it(request: Request) -> Any:
        asked.append(request.messages[0].text)
        return "A title"

    async with hosting(db, clock, ["One."], titles=False) as host:
        await (await host.create("old")).rest()
    clock.advance(25 * 3600)
    script = ["Two.", fail(kind="auth"), "Three.", "Four."]
    async with hosting(db, clock, script, titles=False, seed=1) as host:
        await (await host.create("named", title="Mine")).rest()
        await (await host.create("failed")).rest()
        away = await host.create("archived")
        await away.rest()
        await away.archive()
        await host.create(None)
        wanted = await host.create("wanted")
        await wanted.rest()
    async with hosting(db, clock, [name_it], seed=2) as host:
        assert await titled(await host.chat(wanted.id)) == ("A title", "model")
    (only,) = asked
    assert "wanted" in only


async def test_no_more_chats_are_named_at_a_start_than_anybody_expects(
    db: Database, clock: Clock
) -> None:
    async with hosting(db, clock, ["Done."] * (AT_ONCE + 2), titles=False) as host:
        for number in range(AT_ONCE + 2):
            await (await host.create(str(number))).rest()
            await anyio.sleep(1)
    async with hosting(db, clock, ["A title"] * (AT_ONCE + 2), seed=1) as host:
        await anyio.sleep(60)
        titles = [chat.title for chat in await host.list()]
    assert titles.count("A title") == AT_ONCE


async def test_a_host_that_ends_does_not_wait_for_titles(db: Database, clock: Clock) -> None:
    async with hosting(db, clock, ["One.", hang()]) as host:
        chat = await host.create("fix")
        await chat.rest()
        await anyio.sleep(1)
        before = anyio.current_time()
    assert anyio.current_time() - before < 1
