"""A worker is told to go: it finishes what it can and gives the rest away."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import anyio
import anyio.lowlevel
import pytest

from holdfast.chat.transitions import user
from holdfast.kernel.policy import Wording
from holdfast.kernel.tool import tool
from holdfast.store.database import Database
from holdfast.testing import Clock, ScriptedModel, call, fail, hang, pause, say
from holdfast.worker.options import WorkerOptions
from tests.databases import OpenDatabase
from tests.worker.workers import SECOND, Life, living, results_of

IMPATIENT = WorkerOptions(grace=2)


@asynccontextmanager
async def stopping(life: Life) -> AsyncIterator[None]:
    """The worker is told to go; it has gone when the block ends."""
    async with anyio.create_task_group() as group:
        group.start_soon(life.stop)
        await anyio.lowlevel.checkpoint()
        yield


async def test_a_step_in_flight_is_finished_and_no_other_begun(db: Database, clock: Clock) -> None:
    ran: list[str] = []

    @tool
    async def act() -> str:
        ran.append("act")
        return "done"

    model = ScriptedModel([[pause(20), call("act")], "Done."])
    async with living(db, model, [act], clock=clock) as first:
        chat_id = await first.begin()
        await anyio.sleep(5)
        await first.stop()
        chat = await first.chat(chat_id)
        assert (chat.status, chat.worker_id, chat.crashes) == ("running", None, 0)
        assert await first.lines(chat_id) == ["prompt: ?", "answer: →act"]
        assert ran == []
    async with living(db, model, [act], clock=clock, seed=1) as second:
        before = clock.now()
        await second.rest(chat_id)
        assert clock.now() - before < SECOND
        assert (await second.lines(chat_id))[2:] == ["results: ok done", "answer: Done."]


async def test_an_attempt_that_is_cut_is_made_again_by_the_next(db: Database, clock: Clock) -> None:
    model = ScriptedModel([[say("Half"), hang()], "Whole."])
    async with living(db, model, clock=clock) as first:
        chat_id = await first.begin()
        await anyio.sleep(5)
        before = clock.now()
        await first.stop()
        assert 29 * SECOND < clock.now() - before < 32 * SECOND
        chat = await first.chat(chat_id)
        assert (chat.status, chat.worker_id, chat.crashes) == ("running", None, 0)
        assert await first.lines(chat_id) == ["prompt: ?"]
    async with living(db, model, clock=clock, seed=1) as second:
        chat = await second.rest(chat_id)
        assert await second.lines(chat_id) == ["prompt: ?", "answer: Whole."]
        assert chat.outcome is not None
        assert chat.outcome.reason == "stop"


async def test_calls_that_are_cut_are_no_persons_interrupt(db: Database, clock: Clock) -> None:
    ran: list[str] = []

    @tool(effect="once", parallel=True)
    async def quick() -> str:
        ran.append("quick")
        return "quick"

    @tool(effect="once", parallel=True)
    async def slow() -> str:
        ran.append("slow")
        await anyio.sleep(3600)
        return "never"

    @tool(effect="idempotent", parallel=True)
    async def again() -> str:
        ran.append("again")
        await anyio.sleep(3600 if ran.count("again") == 1 else 1)
        return "again"

    @tool(effect="once", parallel=False)
    async def later() -> str:
        ran.append("later")
        return "later"

    tools = [quick, slow, again, later]
    model = ScriptedModel([[call(one.name) for one in tools], "Done."])
    async with living(db, model, tools, clock=clock, options=IMPATIENT) as first:
        chat_id = await first.begin()
        await anyio.sleep(5)
        await first.stop()
        chat = await first.chat(chat_id)
        assert (chat.status, chat.worker_id, chat.crashes) == ("running", None, 0)
        assert [m.kind for m in await first.history(chat_id)] == ["prompt", "answer"]
        journal = await first.journal(chat_id)
        assert {name: row.state for name, row in journal.items()} == {
            "quick": "finished",
            "slow": "started",
            "again": "started",
        }
    async with living(db, model, tools, clock=clock, seed=1) as second:
        await second.rest(chat_id)
        made = {one.tool: one.outcome for one in results_of(await second.history(chat_id))}
        assert made == {"quick": "ok", "slow": "lost", "again": "ok", "later": "ok"}
        together, *after = ran[:3], *ran[3:]
        assert sorted(together) == ["again", "quick", "slow"]
        assert after == ["again", "later"]
        assert Wording().interrupted_tools not in str(await second.lines(chat_id))


async def test_what_a_call_returned_when_it_was_cut_is_not_done_again(
    db: Database, clock: Clock
) -> None:
    """It ended by its own, with a result: that the process goes does not change what it did."""
    ran: list[str] = []

    @tool(effect="once")
    async def careful() -> str:
        ran.append("careful")
        with suppress(BaseException):
            await anyio.sleep(3600)
        return "as far as it came"

    model = ScriptedModel([call("careful"), "Done."])
    async with living(db, model, [careful], clock=clock, options=IMPATIENT) as first:
        chat_id = await first.begin()
        await anyio.sleep(5)
        await first.stop()
    async with living(db, model, [careful], clock=clock, seed=1) as second:
        await second.rest(chat_id)
        (made,) = results_of(await second.history(chat_id))
        assert (made.outcome, made.text) == ("ok", "as far as it came")
        assert ran == ["careful"]


async def test_a_tool_that_does_not_obey_holds_nobody_up_for_longer_than_its_grace(
    db: Database, clock: Clock
) -> None:
    let_go = anyio.Event()

    @tool(effect="once")
    async def stubborn() -> str:
        while not let_go.is_set():
            try:
                await let_go.wait()
            except BaseException:
                continue
        return "too late"

    model = ScriptedModel([call("stubborn"), "Done."])
    async with living(db, model, [stubborn], clock=clock, options=IMPATIENT) as first:
        chat_id = await first.begin()
        await anyio.sleep(5)
        before = clock.now()
        await first.stop()
        assert clock.now() - before < 8 * SECOND
    async with living(db, model, [stubborn], clock=clock, seed=1) as second:
        await second.rest(chat_id)
        (made,) = results_of(await second.history(chat_id))
        assert made.outcome == "lost"
        let_go.set()
        await anyio.sleep(1)
        assert len(results_of(await second.history(chat_id))) == 1


async def test_a_chat_that_waits_for_its_next_attempt_is_given_away_at_once(
    db: Database, clock: Clock
) -> None:
    model = ScriptedModel([fail(kind="rate_limit", retry_after=25), "Done."])
    async with living(db, model, clock=clock) as first:
        chat_id = await first.begin()
        await first.until(chat_id, lambda chat: chat.retry is not None)
        before = clock.now()
        await first.stop()
        assert clock.now() - before < SECOND
        chat = await first.chat(chat_id)
        assert (chat.status, chat.worker_id) == ("running", None)
        assert chat.retry_at is not None
    async with living(db, model, clock=clock, seed=1) as second:
        await second.rest(chat_id)
        assert clock.now() >= chat.retry_at
        assert (await second.lines(chat_id))[-1] == "answer: Done."


async def test_an_interrupt_is_still_settled(db: Database, clock: Clock) -> None:
    async with living(db, [[say("Half"), hang()]], clock=clock) as life:
        chat_id = await life.begin()
        await anyio.sleep(5)
        async with stopping(life):
            await life.do(user.interrupt, chat_id)
        chat = await life.chat(chat_id)
        assert chat.status == "idle"
        assert (await life.lines(chat_id))[1] == "answer: Half"


async def test_nothing_is_claimed_any_more(db: Database, clock: Clock) -> None:
    async with living(db, [[pause(20), "One."], "Two."], clock=clock) as life:
        busy = await life.begin()
        await anyio.sleep(1)
        async with stopping(life):
            new = await life.begin()
            await anyio.sleep(10)
            assert (await life.chat(busy)).worker_id is not None
            assert (await life.chat(new)).worker_id is None
        assert (await life.chat(new)).epoch == 0


@pytest.mark.parametrize("busy", [False, True])
async def test_what_was_being_claimed_is_given_away(db: Database, clock: Clock, busy: bool) -> None:
    script = [[pause(20), "One."], "Two."] if busy else ["Two."]
    async with living(db, script, clock=clock) as life, anyio.create_task_group() as group:
        if busy:
            await life.begin()
        await anyio.sleep(1)  # it has looked for chats by then, and looks again when there is one

        async def stop() -> None:
            group.start_soon(life.stop)

        group.start_soon(life.faulty_db.committing, "claim", stop)
        await anyio.lowlevel.checkpoint()
        chat_id = await life.begin()
        before = clock.now()
        await anyio.sleep(5)
        chat = await life.chat(chat_id)
        assert (chat.status, chat.worker_id) == ("running", None)
        assert (chat.epoch, chat.crashes) == (1, 0)
        await life.stop()
        assert clock.now() - before < 25 * SECOND
        assert await life.lines(chat_id) == ["prompt: ?"]


@pytest.mark.parametrize("open_db", ["postgres"], indirect=True)
async def test_others_are_told_and_go_on_at_once(open_db: OpenDatabase, clock: Clock) -> None:
    model = ScriptedModel([[say("Half"), hang()], "Whole."])
    async with (
        open_db() as db,
        open_db() as theirs,
        living(db, model, clock=clock, options=IMPATIENT) as first,
    ):
        chat_id = await first.begin()
        await anyio.sleep(1)
        async with living(theirs, model, clock=clock, seed=1) as second:
            await anyio.sleep(7.5)
            await first.stop()
            gone = clock.now()
            await second.rest(chat_id)
            assert clock.now() - gone < SECOND
            assert (await second.lines(chat_id))[-1] == "answer: Whole."


async def test_a_worker_that_has_gone_leaves_no_trace(db: Database, clock: Clock) -> None:
    async with living(db, ["Done."], clock=clock) as life:
        await life.rest(await life.begin())
        assert await db.read(lambda tx: tx.fetch("SELECT id FROM workers"))
        await life.stop()
        assert not await db.read(lambda tx: tx.fetch("SELECT id FROM workers"))


async def test_a_database_that_does_not_answer_does_not_hold_up_the_end(
    db: Database, clock: Clock
) -> None:
    async with living(db, [[say("Half"), hang()]], clock=clock, options=IMPATIENT) as life:
        await life.begin()
        await anyio.sleep(5)
        life.faulty_db.hold()
        before = clock.now()
        with anyio.fail_after(60):
            await life.stop()
        assert clock.now() - before < 60 * SECOND
        life.faulty_db.resume()
