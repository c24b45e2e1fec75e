"""A host where people stumble: its end, its keys, other loops, odd input."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, closing
from pathlib import Path
from typing import Any

import anyio
import pytest

import holdfast
from holdfast.agent import Agent
from holdfast.chat.errors import ChatNotFound, InvalidInput
from holdfast.chat.idempotency import forget_old_keys
from holdfast.host import serving
from holdfast.kernel.errors import ConfigError
from holdfast.kernel.ports import Ports
from holdfast.store import url
from holdfast.store.database import CannotOpen, Closed, Database, OtherLoop
from holdfast.testing import Clock, ScriptedModel, pause, ports, say
from holdfast.worker.options import WorkerOptions
from tests.worker.workers import world_of

OpenDatabase = Callable[[], AbstractAsyncContextManager[Database]]
SHORT = WorkerOptions(grace=0.5)


def agent_of(*script: object, clock: Clock) -> tuple[Agent, Ports]:
    world = ports(clock=clock)
    return Agent(model=ScriptedModel(list(script)), ports=world), world  # type: ignore[arg-type]


async def test_a_stream_that_is_read_when_the_host_closes_says_so(
    open_db: OpenDatabase, clock: Clock
) -> None:
    agent, world = agent_of([say("Once"), pause(1_000)], clock=clock)
    ended: list[str] = []

    async def read(chat: holdfast.Chat) -> None:
        with pytest.raises(Closed):
            async for _ in chat.stream(follow=True):
                pass
        ended.append(chat.id)

    async with anyio.create_task_group() as group:
        async with open_db() as db:
            async with serving(db, [agent], ports=world, worker=SHORT, titles=False) as host:
                chat = await host.create("?")
                group.start_soon(read, chat)
                await anyio.sleep(1)
    assert ended == [chat.id]


@pytest.mark.parametrize("how", ["rest", "stream"])
async def test_who_waits_for_a_chat_when_its_host_closes_is_told_at_once(
    open_db: OpenDatabase, clock: Clock, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    agent, world = agent_of([say("Once"), pause(1_000)], clock=clock)
    told: list[float] = []

    async def wait(chat: holdfast.Chat) -> None:
        with pytest.raises(Closed):
            if how == "rest":
                await chat.rest()
            async for _ in chat.stream(follow=True):
                pass
        told.append(anyio.current_time())

    monkeypatch.setattr(url, "open_database", lambda *_, **more: open_db())
    async with anyio.create_task_group() as group:
        async with holdfast.open("", [agent], ports=world, worker=SHORT, titles=False) as host:
            group.start_soon(wait, await host.create("?"))
            await anyio.sleep(1)
        closed = anyio.current_time()
    assert [at - closed for at in told] == [pytest.approx(0, abs=0.1)]


@pytest.mark.parametrize("error", [ValueError("mine"), SystemExit(4), KeyboardInterrupt()])
async def test_what_is_raised_in_the_block_comes_out_as_it_is(
    open_db: OpenDatabase, clock: Clock, error: BaseException
) -> None:
    agent, world = agent_of("Hi", clock=clock)
    async with open_db() as db:
        with pytest.raises(type(error)) as raised:
            async with serving(db, [agent], ports=world, worker=SHORT, titles=False):
                raise error
    assert raised.value is error


async def test_the_key_of_a_chat_lives_as_long_as_the_chat(db: Database, clock: Clock) -> None:
    agent, world = agent_of("Hi", "Hi", clock=clock)
    async with serving(db, [agent], ports=world, worker=SHORT, titles=False) as host:
        chat = await host.create("?", key="k")
        await chat.rest()
        await chat.send("thanks", key="later")
        await chat.rest()
        clock.advance(8 * 24 * 3600)
        await db.write(forget_old_keys)
        assert (await host.create("?", key="k")).id == chat.id
        left = await db.read(lambda tx: tx.fetch("SELECT key FROM requests"))
        assert [row[0] for row in left] == ["k"]


async def test_the_key_of_a_chat_that_was_deleted_makes_another(db: Database, clock: Clock) -> None:
    agent, world = agent_of("Hi", "Hi", clock=clock)
    async with serving(db, [agent], ports=world, worker=SHORT, titles=False) as host:
        first = await host.create("?", key="k")
        await first.rest()
        await first.delete()
        second = await host.create("?", key="k")
        assert second.id != first.id
        assert (await second.rest()).text == "Hi"
        assert (await host.create("?", key="k")).id == second.id


async def test_another_event_loop_is_refused_before_anything_is_written(
    open_db: OpenDatabase, clock: Clock
) -> None:
    agent, world = agent_of("Hi", clock=clock)
    raised: list[BaseException] = []
    async with open_db() as db:
        async with serving(db, [agent], ports=world, worker=None) as host:
            chat = await host.create(None)

            def elsewhere() -> None:
                for asked in (chat.send("two"), chat.read(), chat.rest()):
                    with pytest.raises(OtherLoop) as error:
                        asyncio.run(asked)
                    raised.append(error.value)

            thread = threading.Thread(target=elsewhere)
            thread.start()
            thread.join()
            assert len(raised) == 3
            assert await chat.history() == ()


@pytest.mark.parametrize("owner", [None, 5, "\x00", "\ud800"])
async def test_an_owner_that_cannot_be_stored_is_refused(
    db: Database, clock: Clock, owner: object
) -> None:
    agent, world = agent_of("Hi", clock=clock)
    async with serving(db, [agent], ports=world, worker=None) as host:
        with pytest.raises(InvalidInput, match="owner"):
            await host.create("?", owner=owner)  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="key"):
            await host.create("?", key="\x00")


async def test_a_summary_that_cannot_be_had_leaves_the_chat_as_it_was(
    db: Database, clock: Clock
) -> None:
    agent, world = agent_of("Hi", *["a summary longer than all of it"] * 3, clock=clock)
    async with serving(db, [agent], ports=world, worker=SHORT, titles=False) as host:
        chat = await host.create("?")
        before = await chat.rest()
        await chat.compact()
        after = await chat.rest()
        assert (after.reason, after.failure) == (before.reason, None)
        last = (await chat.history())[-1]
        assert (last.kind, last.visibility) == ("note", "user")
        assert "was not summarized" in last.text


async def test_a_file_of_another_program_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE notes (text)")
        other.commit()
    with pytest.raises(CannotOpen, match=r"another program.*notes"):
        async with holdfast.open(f"sqlite:///{path}", [Agent(model="demo")]):
            pass
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("SELECT name FROM sqlite_schema").fetchall() == [("notes",)]


async def test_a_database_that_belongs_to_one_process_has_one_worker_at_a_time(
    db: Database, clock: Clock
) -> None:
    """Two that both believe to be alone would take each other for dead, chat after chat."""
    agent, world = agent_of([say("Once"), pause(60), say(" more.")], clock=clock)
    async with serving(db, [agent], ports=world, titles=False) as host:
        chat = await host.create("?")
        await anyio.sleep(1)
        second = serving(db, [agent], ports=world_of(clock, seed=1), titles=False)
        if db.exclusive:
            with pytest.raises(ConfigError, match="worker=None"):
                await second.__aenter__()
        else:
            async with second as other:
                await (await other.chat(chat.id)).rest()
        async with serving(db, [agent], ports=world, worker=None, titles=False) as reading:
            assert (await (await reading.chat(chat.id)).rest()).text == "Once more."
        assert (await chat.read()).epoch == 1
    async with serving(db, [agent], ports=world, titles=False) as host:
        assert (await (await host.chat(chat.id)).rest()).text == "Once more."


@pytest.mark.parametrize("number", ["1", 1.0, True, 10**30, None], ids=repr)
async def test_a_message_is_named_by_a_number_whatever_the_database_would_take(
    db: Database, clock: Clock, number: Any
) -> None:
    agent, world = agent_of("Hi.", clock=clock)
    async with serving(db, [agent], ports=world, worker=SHORT, titles=False) as host:
        chat = await host.create("Hello?")
        await chat.rest()
        for ask in (chat.edit(number, "Oh?"), chat.fork(number)):
            with pytest.raises(InvalidInput, match=r"number is .*: use the number of a message"):
                await ask
        if number is not None:
            with pytest.raises(InvalidInput, match=r"before is .*: use the number of a message"):
                await chat.messages(before=number)
            with pytest.raises(InvalidInput, match=r"after is .*: use the number of a message"):
                await chat.messages(after=number)
        assert len(await chat.history()) == 2


@pytest.mark.parametrize("id", ["nobody", "a\0b", "\ud800", 5], ids=ascii)
async def test_an_id_that_no_chat_can_have_is_that_of_no_chat(
    db: Database, clock: Clock, id: Any
) -> None:
    agent, world = agent_of(clock=clock)
    async with serving(db, [agent], ports=world, worker=SHORT, titles=False) as host:
        with pytest.raises(ChatNotFound, match="there is no chat"):
            await host.chat(id)


@pytest.mark.parametrize("text", ["a\0b", 5], ids=ascii)
@pytest.mark.parametrize("by", ["owner", "parent", "before"])
async def test_a_list_is_asked_for_by_what_can_be_stored(
    db: Database, clock: Clock, by: str, text: Any
) -> None:
    agent, world = agent_of(clock=clock)
    async with serving(db, [agent], ports=world, worker=SHORT, titles=False) as host:
        with pytest.raises(InvalidInput, match=f"the {by} "):
            await host.list(**{by: text})
