"""Which chats a worker takes, in which order and how many, and what it does with odd ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import anyio
import pytest

from holdfast.chat.queries import list_chats
from holdfast.chat.rows import ChatRow
from holdfast.chat.transitions import claims, lifecycle, user
from holdfast.chat.transitions.claims import ClaimPool
from holdfast.chat.transitions.lifecycle import NewChat, Spawn
from holdfast.kernel.messages import user_message
from holdfast.kernel.tool import Commit, tool
from holdfast.store.database import ChangeNotice, Claimable, Database, Tx
from holdfast.testing import Clock, ScriptedModel, call, hang, pause, say
from holdfast.worker.options import WorkerOptions
from tests.worker.workers import SECOND, living

ONE = WorkerOptions(chats=1, children=1)


async def owned(db: Database) -> list[ChatRow]:
    rows = await db.read(lambda tx: list_chats(tx))
    return [chat for chat in rows if chat.worker_id is not None]


async def execute(db: Database, sql: str, **given: Any) -> None:
    """Do something to the database that nobody should."""

    async def change(tx: Tx) -> None:
        await tx.execute(sql, given)

    await db.write(change)


async def test_no_more_chats_are_taken_than_may_run_at_once(db: Database, clock: Clock) -> None:
    options = WorkerOptions(chats=3)
    async with living(db, [[pause(10), "Done."]] * 8, clock=clock, options=options) as life:
        chats = [await life.begin(str(number)) for number in range(8)]
        before = clock.now()
        most = 0
        for _ in range(25):
            await anyio.sleep(1)
            most = max(most, len(await owned(db)))
        for chat_id in chats:
            await life.rest(chat_id)
        assert most == 3
        # The next one begins when one ends, not with the next poll.
        assert clock.now() - before < 32 * SECOND


async def test_who_has_waited_longest_comes_first(db: Database, clock: Clock) -> None:
    async with living(db, [[pause(3), "Done."]] * 5, clock=clock, options=ONE) as life:
        for number in range(5):
            await life.begin(str(number))
            await anyio.sleep(0.1)
        await anyio.sleep(20)
        asked = [request.messages[0].text for request in life.agent.model.requests]  # type: ignore[union-attr]
        assert asked == ["0", "1", "2", "3", "4"]


async def test_children_do_not_wait_for_room_among_their_parents(
    db: Database, clock: Clock
) -> None:
    @tool(effect="commit")
    async def spawn() -> Commit:
        child = NewChat(id="child", agent="agent", message=user_message("work"))
        return Commit("spawned", (Spawn(child),))

    def turn(request: Any) -> Any:
        return "Worked." if request.messages[0].text == "work" else [pause(30), "Done."]

    model = ScriptedModel([call("spawn")], default=turn)
    async with living(db, model, [spawn], clock=clock, options=ONE) as life:
        parent = await life.begin()
        await anyio.sleep(2)
        assert (await life.chat("child")).status == "idle"
        assert (await life.chat(parent)).status == "running"
        await life.rest(parent)


async def test_a_full_worker_still_stops_what_people_stop(db: Database, clock: Clock) -> None:
    async with living(db, [[pause(60), "Done."]], clock=clock, options=ONE) as life:
        busy = await life.begin()
        await anyio.sleep(1)
        waiting = await life.begin()
        await anyio.sleep(1)
        assert (await life.chat(waiting)).worker_id is None
        before = clock.now()
        await life.interrupted(waiting)
        assert clock.now() - before < SECOND
        await life.interrupted(busy)


async def test_a_chat_that_kills_whoever_claims_it_is_parked(db: Database, clock: Clock) -> None:
    model = ScriptedModel([], default=[say("Half"), hang()])
    chat_id = ""
    for number in range(3):
        async with living(db, model, clock=clock, seed=number) as life:
            chat_id = chat_id or await life.begin()
            await life.until(chat_id, lambda chat, epoch=number: chat.epoch > epoch)  # type: ignore[misc]
            await anyio.sleep(2)
            await life.die()
    model = ScriptedModel([], default="Fine.")
    async with living(db, model, clock=clock, seed=9) as life:
        chat = await life.rest(chat_id)
        assert chat.status == "error"
        assert chat.error is not None
        assert chat.error.kind == "poison"
        assert model.requests == []
        await life.do(user.retry, chat_id)
        assert (await life.rest(chat_id)).status == "idle"


async def test_a_chat_that_makes_progress_is_not_parked(db: Database, clock: Clock) -> None:
    @tool(effect="pure")
    async def look() -> str:
        return "found"

    model = ScriptedModel([], default=[pause(1), call("look")])
    chat_id = ""
    for number in range(6):
        async with living(db, model, [look], clock=clock, seed=number) as life:
            chat_id = chat_id or await life.begin()
            await life.until(chat_id, lambda chat, epoch=number: chat.epoch > epoch)  # type: ignore[misc]
            await anyio.sleep(2.5)
            await life.die()
    chat = await life.chat(chat_id)
    assert (chat.status, chat.epoch) == ("running", 6)


async def test_a_chat_whose_agent_nobody_knows_waits_for_somebody_who_does(
    db: Database, clock: Clock
) -> None:
    async with living(db, ["Never."], clock=clock) as life:
        new = NewChat(id="odd", agent="odd", message=user_message("?"))
        await life.do(lifecycle.create, new)
        await anyio.sleep(60)
        chat = await life.chat("odd")
        assert (chat.status, chat.worker_id, chat.epoch) == ("running", None, 0)
        await life.stop()
    async with living(db, ["Here."], clock=clock, seed=1, name="odd") as life:
        await life.rest("odd")
        assert await life.lines("odd") == ["prompt: ?", "answer: Here."]


async def test_a_chat_of_ours_without_a_runner_gets_one(db: Database, clock: Clock) -> None:
    async with living(db, ["Done."], clock=clock) as life:
        life.faulty_db.lose("claim", 3)
        chat_id = await life.begin()
        before = clock.now()
        chat = await life.rest(chat_id)
        assert clock.now() - before <= 10 * SECOND
        assert chat.epoch == 1


async def test_a_chat_of_ours_whose_next_attempt_is_later_is_not_hurried(
    db: Database, clock: Clock
) -> None:
    """Its runner is gone; the wait that was promised is not."""
    from holdfast.testing import fail

    async with living(db, [fail(kind="rate_limit", retry_after=25), "Done."], clock=clock) as life:
        chat_id = await life.begin()
        waiting = await life.until(chat_id, lambda chat: chat.retry_at is not None)
        (runner,) = life.worker._runners.values()
        runner._group.cancel_scope.cancel()
        await life.rest(chat_id)
        assert waiting.retry_at is not None
        assert clock.now() >= waiting.retry_at


def drops_changes(notice: ChangeNotice, hear: Callable[[ChangeNotice], None]) -> None:
    if isinstance(notice, Claimable):
        hear(notice)


async def test_a_busy_worker_looks_after_its_chats_all_the_same(db: Database, clock: Clock) -> None:
    """New chats come all the time, so that there is always something to claim."""
    model = ScriptedModel([[say("Half"), hang()]], default="Done.")
    async with living(db, model, clock=clock) as life:
        life.faulty_db.notices = drops_changes
        chat_id = await life.begin()
        await anyio.sleep(2)
        await life.do(user.interrupt, chat_id)
        for _ in range(10):
            await anyio.sleep(1)
            await life.begin()
        assert (await life.chat(chat_id)).status == "idle"


async def test_tidying_up_is_not_done_at_every_claim(db: Database, clock: Clock) -> None:
    async with living(db, ["Done."] * 20, clock=clock) as life:
        for _ in range(20):
            await life.rest(await life.begin())
        assert life.faulty_db.writes["clean_up"] == 1


async def test_a_worker_with_room_looks_for_chats_once_for_each(db: Database, clock: Clock) -> None:
    async with living(db, ["Done."] * 10, clock=clock) as life:
        await anyio.sleep(1)
        before = life.faulty_db.writes["claim"]
        for _ in range(10):
            await life.rest(await life.begin())
        await anyio.sleep(1)
        assert life.faulty_db.writes["claim"] == before + 10


async def test_chats_that_wait_together_are_claimed_in_batches_where_others_may_want_some(
    db: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[int] = []
    claim = claims.claim

    async def counted(
        tx: Tx, worker: claims.WorkerRow, limits: Mapping[ClaimPool, int]
    ) -> dict[ClaimPool, list[ChatRow]]:
        found = await claim(tx, worker, limits)
        taken.append(len(found["root"]))
        return found

    async with living(db, [[pause(10), "Done."]] * 40, clock=clock) as life:
        await life.hold("claim")
        monkeypatch.setattr(claims, "claim", counted)
        chats = [await life.begin(str(number)) for number in range(40)]
        life.faulty_db.resume()
        for chat_id in chats:
            await life.rest(chat_id)
    assert [count for count in taken if count] == ([40] if db.exclusive else [16, 16, 8])


async def test_a_row_that_cannot_be_read_stops_nobody_else(db: Database, clock: Clock) -> None:
    async with living(db, ["Done."], clock=clock) as life:
        await life.hold("claim")
        broken = await life.begin()
        await anyio.sleep(1)
        fine = await life.begin()
        await execute(db, "UPDATE chats SET rules = '{' WHERE id = :id", id=broken)
        life.faulty_db.resume()
        assert (await life.rest(fine, 60)).status == "idle"
        await execute(db, "UPDATE chats SET rules = '[]' WHERE id = :id", id=broken)
        await life.interrupted(broken)


async def test_a_chat_that_cannot_be_read_ends_in_an_error_that_says_so(
    db: Database, clock: Clock
) -> None:
    async with living(db, ["Done.", "Again."], clock=clock) as life:
        await life.hold("claim")
        chat_id = await life.begin()
        await life.send(chat_id, "again")
        ((body,),) = await db.read(lambda tx: tx.fetch("SELECT body FROM queue"))
        await execute(db, "UPDATE queue SET body = '{'")
        life.faulty_db.resume()
        chat = await life.rest(chat_id, 60)
        assert chat.status == "error"
        assert chat.error is not None
        assert chat.error.kind == "internal"
        assert "reference" in chat.error.detail
        await execute(db, "UPDATE queue SET body = :body", body=body)
        await life.do(user.retry, chat_id)
        await life.rest(chat_id)
        assert (await life.lines(chat_id))[-1] == "answer: Again."


@pytest.mark.parametrize("open_db", ["postgres"], indirect=True)
async def test_a_dead_workers_row_is_forgotten_when_nobody_waits_for_it(
    db: Database, clock: Clock
) -> None:
    async with living(db, [], clock=clock) as first:
        await first.die()
    clock.advance(3600)
    async with living(db, [], clock=clock, seed=1) as second:
        await anyio.sleep(1)
        rows = await db.read(lambda tx: tx.fetch("SELECT id FROM workers"))
        assert [row[0] for row in rows] == [second.worker.id]


async def test_what_may_not_run_is_never_taken(db: Database, clock: Clock) -> None:
    async with living(db, ["Done."], clock=clock) as life:
        idle = await life.begin()
        await life.rest(idle)
        archived = NewChat(id="archived", agent="agent", message=None)
        await life.do(lifecycle.create, archived)
        await life.do(lifecycle.archive, "archived")
        await anyio.sleep(30)
        me = claims.WorkerRow(id="x", agents=("agent",), lease=0)
        limits: dict[ClaimPool, int] = {"urgent": 10, "root": 10, "child": 10}
        claimed = await db.write(lambda tx: claims.claim(tx, me, limits))
        assert claimed == {"urgent": [], "root": [], "child": []}
        assert (await life.chat("archived")).epoch == 0
