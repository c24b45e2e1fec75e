"""One worker dies, stands still or is late, and another goes on: nothing is lost or doubled."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from holdfast.chat.transitions import claims
from holdfast.kernel.model import Request
from holdfast.kernel.tool import tool
from holdfast.store.database import Database, Tx
from holdfast.testing import Clock, ScriptedModel, call, pause, say
from holdfast.worker.options import WorkerOptions
from tests.databases import OpenDatabase
from tests.worker.workers import Life, living, results_of

LEASE = 15
POLL = 5
BOTH_AT_ONCE = pytest.mark.parametrize("open_db", ["postgres"], indirect=True)
"""SQLite lets one process write at a time."""


@asynccontextmanager
async def another(db: Database, open_db: OpenDatabase) -> AsyncIterator[Database]:
    """The database as another process has it. SQLite lets nobody else in while one writes."""
    if db.exclusive:
        yield db
    else:
        async with open_db() as opened:
            yield opened


async def test_the_chats_of_a_dead_worker_are_finished_by_another(
    db: Database, open_db: OpenDatabase, clock: Clock
) -> None:
    model = ScriptedModel([[say("Half"), pause(100)], "Whole."])
    async with living(db, model, clock=clock) as first:
        chat_id = await first.begin()
        await anyio.sleep(3)
        await first.die()
        died = clock.now()
    async with (
        another(db, open_db) as theirs,
        living(theirs, model, clock=clock, seed=1) as second,
    ):
        chat = await second.rest(chat_id)
        assert await second.lines(chat_id) == ["prompt: ?", "answer: Whole."]
        assert chat.epoch == 2
        # Whoever has the file of SQLite knows that everybody else is dead.
        patience = 0 if db.exclusive else LEASE + 5
        assert clock.now() - died <= (patience + 1) * 1_000_000


async def test_what_is_left_of_an_answer_that_nobody_waits_for_is_gone_when_the_chat_rests(
    db: Database, open_db: OpenDatabase, clock: Clock
) -> None:
    async def make_it_older(tx: Tx) -> int:
        return await tx.execute("UPDATE partials SET history_version = history_version - 1")

    model = ScriptedModel([[say("Half"), pause(100)], "Whole."])
    async with living(db, model, clock=clock) as first:
        chat_id = await first.begin()
        await anyio.sleep(3)
        await first.die()
    assert await db.write(make_it_older) == 1
    async with (
        another(db, open_db) as theirs,
        living(theirs, model, clock=clock, seed=1) as second,
    ):
        await second.rest(chat_id)
        assert await second.lines(chat_id) == ["prompt: ?", "answer: Whole."]
        assert not await db.read(lambda tx: tx.fetch("SELECT chat_id FROM partials"))


@BOTH_AT_ONCE
async def test_a_live_worker_keeps_its_chats_however_long_a_step_takes(
    open_db: OpenDatabase, clock: Clock
) -> None:
    @tool(effect="once")
    async def slow() -> str:
        await anyio.sleep(600)
        return "slow"

    model = ScriptedModel([call("slow"), "Done."])
    async with open_db() as db:
        async with (
            open_db() as theirs,
            living(db, model, [slow], clock=clock) as first,
            living(theirs, model, [slow], clock=clock, seed=1),
        ):
            chat_id = await first.begin()
            await anyio.sleep(600)
            chat = await first.rest(chat_id)
            assert chat.epoch == 1
            assert [one.text for one in results_of(await first.history(chat_id))] == ["slow"]


@BOTH_AT_ONCE
async def test_two_workers_never_have_the_same_chat(open_db: OpenDatabase, clock: Clock) -> None:
    async with open_db() as db:
        script = [[pause(1), "Done."]] * 40
        async with (
            open_db() as theirs,
            living(db, script, clock=clock) as first,
            living(theirs, script, clock=clock, seed=1) as second,
        ):
            chats = [await first.begin(str(number)) for number in range(40)]
            ended = [await first.rest(chat_id) for chat_id in chats]
            assert {chat.epoch for chat in ended} == {1}
            asked = [len(life.agent.model.requests) for life in (first, second)]  # type: ignore[union-attr]
            assert sum(asked) == 40


@BOTH_AT_ONCE
@pytest.mark.parametrize("one_dies", [False, True], ids=["begun here", "left by the dead"])
async def test_no_worker_collects_all_chats_while_another_has_room(
    open_db: OpenDatabase, clock: Clock, one_dies: bool
) -> None:
    """A chat goes on where its message was sent, and so work is spread as requests are, but no
    further than a worker has room for."""
    model = ScriptedModel([], default=[pause(300), "Done."])
    options = WorkerOptions(chats=2)
    chats: list[str] = []

    async def begin(life: Life) -> None:
        chats.extend([await life.begin(str(number)) for number in range(4)])

    async with open_db() as db, open_db() as theirs:
        if one_dies:
            async with living(db, model, clock=clock, seed=2) as dead:
                await begin(dead)
                await anyio.sleep(2)
                await dead.die()
        async with (
            living(db, model, clock=clock, options=options) as first,
            living(theirs, model, clock=clock, seed=1, options=options) as second,
        ):
            before = clock.now()
            if not one_dies:
                await begin(first)
            lives = {first.worker.id, second.worker.id}
            rows = [await first.until(id, lambda chat: chat.worker_id in lives) for id in chats]
            patience = LEASE + 5 if one_dies else 0
            assert clock.now() - before <= (patience + 1) * 1_000_000
            assert Counter(row.worker_id for row in rows) == dict.fromkeys(lives, 2)
            for id in chats:
                await first.interrupted(id)


@asynccontextmanager
async def fenced_out(
    db: Database,
    open_db: OpenDatabase,
    clock: Clock,
    model: ScriptedModel,
    *held: str,
    **agent: Any,
) -> AsyncIterator[tuple[Life, Life, str]]:
    """Two workers: the first stood still at these writes until the second had done its work."""
    async with living(db, model, clock=clock, **agent) as first:
        chat_id = await first.begin()
        await anyio.sleep(0.5)  # its model is being asked
        first.faulty_db.hold(*held)
        await anyio.sleep(5)
        clock.advance(LEASE)
        async with (
            another(db, open_db) as theirs,
            living(theirs, model, clock=clock, seed=1, **agent) as second,
        ):
            await second.rest(chat_id)
            yield first, second, chat_id


async def test_a_worker_that_was_fenced_out_writes_nothing_however_late_it_wakes_up(
    db: Database, open_db: OpenDatabase, clock: Clock
) -> None:
    model = ScriptedModel([[pause(1), "Mine."], "Theirs."])
    async with fenced_out(db, open_db, clock, model, "commit", "beat", "claim") as (
        first,
        second,
        chat_id,
    ):
        assert first.faulty_db.waiting[0] in ("beat", "commit", "claim")
        before = await second.chat(chat_id)
        first.faulty_db.resume()
        await anyio.sleep(60)
        assert await second.chat(chat_id) == before
        assert await second.lines(chat_id) == ["prompt: ?", "answer: Theirs."]
        assert before.epoch == 2


async def test_a_worker_that_stood_still_ends_its_step_when_it_wakes_up(
    db: Database, open_db: OpenDatabase, clock: Clock
) -> None:
    """Nothing at all of it goes on meanwhile; then its model answers, and it has lost the chat."""
    model = ScriptedModel([[say("Mi"), pause(100), "ne."], "Theirs."])
    async with fenced_out(db, open_db, clock, model) as (first, second, chat_id):
        before = await second.chat(chat_id)
        first.faulty_db.resume()
        await anyio.sleep(20)
        assert not first.worker._runners
        await anyio.sleep(200)
        assert await second.chat(chat_id) == before
        assert await second.lines(chat_id) == ["prompt: ?", "answer: Theirs."]


async def test_a_tool_of_a_worker_that_was_fenced_out_is_stopped_and_its_result_dropped(
    db: Database, open_db: OpenDatabase, clock: Clock
) -> None:
    began: list[float] = []
    ended: list[float] = []

    @tool(effect="idempotent")
    async def work() -> str:
        began.append(anyio.current_time())
        try:
            await anyio.sleep(60 if len(began) == 1 else 1)
        finally:
            ended.append(anyio.current_time())
        return f"run {len(began)}"

    model = ScriptedModel([call("work"), "Theirs."])
    async with fenced_out(
        db, open_db, clock, model, "beat", "claim", "commit_step", tools=[work]
    ) as (first, second, chat_id):
        before = await second.chat(chat_id)
        await anyio.sleep(20)
        assert len(ended) == 2
        first.faulty_db.resume()
        await anyio.sleep(100)
        assert await second.chat(chat_id) == before
        assert [one.text for one in results_of(await second.history(chat_id))] == ["run 2"]


@BOTH_AT_ONCE
async def test_a_runner_that_lost_its_chat_ends_its_model_call_though_it_is_not_notified(
    open_db: OpenDatabase, clock: Clock
) -> None:
    """Its next poll shows that the chat is not its own any more: the answer is of no use."""
    ended: list[float] = []

    async def answering(request: Request) -> None:
        try:
            await anyio.sleep(1_000)
        finally:
            ended.append(anyio.current_time())

    model = ScriptedModel([[say("Mi"), answering, "ne."], "Theirs."])
    async with open_db() as db, open_db() as theirs, living(db, model, clock=clock) as first:
        chat_id = await first.begin()
        await anyio.sleep(1)
        first.faulty_db.notices = lambda notice, hear: None
        first.faulty_db.hold("beat", "claim")
        await anyio.sleep(10)
        clock.advance(LEASE)
        async with living(theirs, model, clock=clock, seed=1) as second:
            await second.rest(chat_id)
            assert ended == []
            first.faulty_db.resume()
            await anyio.sleep(POLL + 1)
            assert len(ended) == 1
            assert not first.worker._runners
            assert await second.lines(chat_id) == ["prompt: ?", "answer: Theirs."]


@pytest.mark.parametrize("hours", [1, -1])
async def test_a_clock_that_is_set_changes_nothing_but_when(
    db: Database, clock: Clock, hours: int
) -> None:
    @tool(effect="once")
    async def slow() -> str:
        await anyio.sleep(30)
        return "slow"

    async with living(db, [call("slow"), [pause(30), "Done."]], [slow], clock=clock) as life:
        chat_id = await life.begin()
        await anyio.sleep(10)
        clock.advance(hours * 3600)
        chat = await life.rest(chat_id)
        assert await life.lines(chat_id) == [
            "prompt: ?",
            "answer: →slow",
            "results: ok slow",
            "answer: Done.",
        ]
        assert chat.epoch == 1


@BOTH_AT_ONCE
@pytest.mark.parametrize("hours", [1, -1])
async def test_two_workers_and_a_clock_that_is_set_do_every_step_once(
    open_db: OpenDatabase, clock: Clock, hours: int
) -> None:
    ran: list[str] = []

    @tool(effect="once")
    async def slow() -> str:
        ran.append("slow")
        await anyio.sleep(30)
        return "slow"

    model = ScriptedModel([call("slow")], default="Done.")
    async with open_db() as db:
        async with (
            open_db() as theirs,
            living(db, model, [slow], clock=clock) as first,
            living(theirs, model, [slow], clock=clock, seed=1),
        ):
            chat_id = await first.begin()
            await anyio.sleep(10)
            clock.advance(hours * 3600)
            await first.rest(chat_id)
            (made,) = results_of(await first.history(chat_id))
            # It may have been taken away: a step forward looks like a pause of its worker.
            assert made.outcome in (("ok", "lost") if hours > 0 else ("ok",))
            assert ran == ["slow"]
            assert (await first.lines(chat_id))[-1] == "answer: Done."


async def test_a_chat_that_is_found_again_by_the_worker_that_lost_it_has_one_runner(
    db: Database, clock: Clock
) -> None:
    """It is claimed anew while the runner of the lost claim still unwinds."""
    running: list[str] = []
    most = 0

    @tool(effect="idempotent")
    async def stubborn() -> str:
        nonlocal most
        running.append("stubborn")
        most = max(most, len(running))
        try:
            await anyio.sleep(30)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(4)
            running.pop()
        return "done"

    model = ScriptedModel([call("stubborn")], default="Done.")
    async with living(db, model, [stubborn], clock=clock) as life:
        chat_id = await life.begin()
        await anyio.sleep(3)
        # Somebody took it for dead, claimed the chat, and died.
        stranger = claims.WorkerRow(id="x", agents=("agent",), lease=0, exclusive=True)
        await db.write(lambda tx: claims.claim(tx, stranger, {"root": 1}))
        await anyio.sleep(1)
        await life.begin("look for chats")
        again = await life.until(chat_id, lambda chat: chat.epoch == 3, 1)
        assert (again.worker_id, running) == (life.worker.id, ["stubborn"])
        chat = await life.rest(chat_id)
        assert chat.epoch == 3
        assert [one.text for one in results_of(await life.history(chat_id))] == ["done"]
        assert most == 1


async def test_a_commit_that_was_made_and_not_acknowledged_is_not_made_again(
    db: Database, clock: Clock
) -> None:
    async with living(db, [call("nothing"), "Done."], clock=clock) as life:
        for name in ("commit", "commit_step", "finish_turn"):
            life.faulty_db.lose(name)
        chat_id = await life.begin()
        await life.rest(chat_id)
        kinds = [message.kind for message in await life.history(chat_id)]
        assert kinds == ["prompt", "answer", "results", "answer"]
