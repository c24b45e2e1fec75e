"""Who drives which chat: one live worker at a time, in an order, and not one that kills."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import cast

import anyio
import pytest

from holdfast.chat.errors import Fenced
from holdfast.chat.rows import Status, TurnOutcome, fence_of
from holdfast.chat.transitions import claims, lifecycle, runner, user
from holdfast.chat.transitions.claims import MAX_CRASHES
from holdfast.chat.transitions.lifecycle import NewChat
from holdfast.store.database import Claimable, Database, Dialect, Params, Row, Tx
from holdfast.testing import Clock
from tests.chat.chats import (
    LEASE,
    ME,
    SECOND,
    Chats,
    answer,
    approval,
    asks,
    given_result,
    leftover,
    made,
    prompt,
    row_of_call,
)

# --- what is claimed ---


async def test_a_claim_takes_the_chat_and_nothing_else_of_it_changes(chats: Chats) -> None:
    chat = await chats.create("c1")
    chats.take_notices()
    assert await chats.claim() == ["c1"]
    claimed = await chats.row()
    assert (claimed.worker_id, claimed.epoch, claimed.crashes) == (ME, 1, 0)
    assert claimed.snapshot_version == chat.snapshot_version + 1
    assert (claimed.status, claimed.history_version, claimed.attempt, claimed.runnable_since) == (
        chat.status,
        chat.history_version,
        chat.attempt,
        chat.runnable_since,
    )
    assert [type(notice).__name__ for notice in chats.take_notices()] == ["Changed"]


async def test_only_what_is_runnable_is_claimed(chats: Chats) -> None:
    await chats.idle("idle")
    await chats.error("error")
    await chats.requires_action("waits")
    await chats.archived("archived")
    await chats.archived("archived error", Status.ERROR)
    assert await chats.claim("urgent", worker="w2") == []
    assert await chats.claim("root", worker="w2") == []
    assert await chats.claim("child", worker="w2") == []


async def test_a_worker_claims_only_chats_whose_agent_it_knows(chats: Chats) -> None:
    await chats.create("c1", agent="writer")
    await chats.create("c2", agent="reader")
    assert await chats.claim(agents=("reader", "other")) == ["c2"]
    assert await chats.claim(agents=("reader",)) == []
    assert await chats.claim(agents=()) == []
    known = (await chats.ask(claims.live_workers, LEASE)).agents
    assert known == {"reader", "other"}
    chats.clock.advance(15)
    assert not (await chats.ask(claims.live_workers, LEASE)).agents


async def test_a_batch_has_a_limit_and_the_rest_is_for_the_next(chats: Chats) -> None:
    for number in range(5):
        await chats.create(f"c{number}")
    assert await chats.claim(limit=2) == ["c0", "c1"]
    assert await chats.claim(limit=0) == []
    assert await chats.claim(worker="w2", limit=2) == ["c2", "c3"]


async def test_a_chat_that_waits_for_its_next_attempt_is_claimed_when_it_is_time(
    chats: Chats,
) -> None:
    from tests.chat.chats import FAILURE

    chat = await chats.running("c1")
    await chats.do(runner.record_retry, fence_of(chat), FAILURE, 3, 30 * SECOND, release=True)
    chats.clock.advance(29.999)
    assert await chats.claim() == []
    chats.clock.advance(0.001)
    assert await chats.claim() == ["c1"]


# --- order and pools ---


async def test_interrupts_are_claimed_before_due_actions_and_the_longest_runnable_first(
    chats: Chats,
) -> None:
    await chats.requires_action("due 1", calls={"a": 30})
    await chats.requires_action("due 2", calls={"a": 20})
    await chats.create("stopped")
    chats.clock.advance(1)
    await chats.create("stopped later")
    await chats.do(user.interrupt, "stopped later")
    await chats.do(user.interrupt, "stopped")
    chats.clock.advance(30)
    order = ["stopped", "stopped later", "due 2", "due 1"]
    assert await chats.claim("urgent") == order


async def test_runnable_chats_are_claimed_in_the_order_in_which_they_became_so(
    chats: Chats,
) -> None:
    for id in ("b", "a", "c"):
        await chats.create(id)
        chats.clock.advance(1)
    assert await chats.claim() == ["b", "a", "c"]


async def test_a_waiting_chat_does_not_lose_its_place_by_what_people_do_to_it(
    chats: Chats,
) -> None:
    await chats.create("first")
    chats.clock.advance(1)
    await chats.create("second")
    chats.clock.advance(1)
    await chats.send("first", "more")
    await chats.do(user.update, "first", {"title": "x"})
    await chats.do(user.edit, "first", 1, prompt("else"))
    assert await chats.claim(limit=1) == ["first"]


async def test_a_chat_that_rested_waits_from_when_it_runs_again(chats: Chats) -> None:
    await chats.idle("old")
    chats.clock.advance(10)
    await chats.create("new")
    chats.clock.advance(10)
    await chats.send("old", "again")
    assert await chats.claim() == ["new", "old"]


async def test_children_are_claimed_from_a_pool_of_their_own(chats: Chats) -> None:
    await chats.running("parent")
    await chats.child("parent", "child")
    await chats.create("root")
    assert await chats.claim("root", worker="w2") == ["root"]
    assert await chats.claim("child", worker="w2") == ["child"]


async def test_an_interrupted_child_is_as_urgent_as_any(chats: Chats) -> None:
    await chats.running("parent")
    await chats.child("parent", "child")
    await chats.do(user.interrupt, "parent")
    assert sorted(await chats.claim("urgent", worker="w2")) == ["child"]


# --- the lease ---


async def test_a_chat_of_a_live_worker_is_nobody_elses(chats: Chats) -> None:
    await chats.running("c1")
    chats.clock.advance(14.999)
    assert await chats.claim(worker="w2") == []
    await chats.beat(ME)
    chats.clock.advance(14.999)
    assert await chats.claim(worker="w2") == []


async def test_a_chat_of_a_dead_worker_is_claimed_and_the_dead_can_write_nothing_more(
    chats: Chats,
) -> None:
    chat = await chats.running("c1")
    chats.clock.advance(15)
    assert await chats.claim(worker="w2") == ["c1"]
    taken = await chats.row()
    assert (taken.worker_id, taken.epoch, taken.crashes) == ("w2", 2, 1)
    await chats.beat(ME)
    with pytest.raises(Fenced):
        await chats.do(runner.finish_turn, fence_of(chat), TurnOutcome("stop"))
    assert await chats.row() == taken


async def test_a_chat_of_a_worker_that_has_no_row_is_claimed_at_once(chats: Chats) -> None:
    await chats.running("c1")
    await chats.do(claims.leave, ME)
    assert await chats.claim(worker="w2") == ["c1"]


async def test_a_worker_does_not_claim_its_own_chats_again(chats: Chats) -> None:
    await chats.running("c1")
    chats.clock.advance(60)
    assert await chats.claim() == []
    assert [chat.id for chat in await chats.ask(claims.owned, ME)] == ["c1"]
    assert await chats.ask(claims.owned, "w2") == []


async def test_who_holds_the_database_alone_takes_every_other_worker_for_dead(
    chats: Chats,
) -> None:
    await chats.running("c1")
    assert await chats.claim(worker="w2") == []
    assert await chats.claim(worker="w2", exclusive=True) == ["c1"]
    assert (await chats.row()).crashes == 1


async def test_workers_that_nobody_waits_for_are_forgotten_in_time(chats: Chats) -> None:
    await chats.running("c1")
    await chats.beat("idle worker")
    await chats.do(claims.forget_dead, LEASE)
    chats.clock.advance(15 * 100 + 1)
    await chats.beat("young")
    await chats.do(claims.forget_dead, LEASE)
    assert [row[0] for row in (await chats.everything())["workers"]] == [ME, "young"]
    assert await chats.claim(worker="young") == ["c1"]
    await chats.do(claims.forget_dead, LEASE)
    assert [row[0] for row in (await chats.everything())["workers"]] == ["young"]


OpenDatabase = Callable[[], AbstractAsyncContextManager[Database]]


class Explained:
    """A transaction whose questions are answered with how they would be."""

    def __init__(self, inner: Tx) -> None:
        self._inner = inner
        self.plans: list[str] = []

    @property
    def dialect(self) -> Dialect:
        return self._inner.dialect

    async def one(self, sql: str) -> Row | None:
        return await self._inner.one(sql)

    async def fetch(self, sql: str, params: Params) -> Sequence[Row]:
        explain = "EXPLAIN QUERY PLAN"
        if self.dialect.name == "postgres":
            explain = "EXPLAIN"
            # Of a small table it would be right.
            await self._inner.execute("SET LOCAL enable_seqscan = off")
        rows = await self._inner.fetch(f"{explain} {sql}", params)
        self.plans.append("\n".join(str(row) for row in rows))
        return ()


async def test_forgetting_workers_does_not_look_through_chats_at_rest(chats: Chats) -> None:
    async def plan(tx: Tx) -> str:
        explained = Explained(tx)
        await explained.fetch(claims.FORGET_DEAD.format(now=tx.dialect.now), {"age": LEASE})
        return explained.plans[0]

    assert "chats_busy" in await chats.db.write(plan)


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("pool", claims.RUNNABLE)
async def test_claiming_does_not_look_through_chats_at_rest(
    chats: Chats, pool: claims.ClaimPool, exclusive: bool
) -> None:
    me = claims.WorkerRow(id=ME, agents=("agent",), lease=LEASE, exclusive=exclusive)

    async def plan(tx: Tx) -> str:
        explained = Explained(tx)
        assert await claims.claim(cast(Tx, explained), me, {pool: 10}) == {pool: []}
        return explained.plans[0]

    assert "chats_busy" in await chats.db.write(plan)


async def test_leases_go_by_the_clock_of_the_database(postgres_url: str) -> None:
    """Two processes whose own clocks differ by an hour agree on who is alive."""
    from holdfast.store.postgres.database import open_postgres

    async with open_postgres(postgres_url, probe=None) as db:
        early, late = Chats(db, Clock(0)), Chats(db, Clock(10**18))
        await early.running("c1")
        assert await late.claim(worker="w2") == []

        async def age(tx: Tx) -> None:
            await tx.execute(f"UPDATE workers SET beat_at = beat_at - {LEASE}")

        await db.write(age)
        assert await late.claim(worker="w2") == ["c1"]


async def test_two_workers_that_claim_at_once_take_different_chats_and_wait_for_nobody(
    postgres: Chats,
) -> None:
    chats = postgres
    for number in range(6):
        await chats.create(f"c{number}")
    first, second = await chats.beat("w1"), await chats.beat("w2")
    taken, go = anyio.Event(), anyio.Event()
    got: list[str] = []

    async def slowly(tx: Tx) -> None:
        claimed = await claims.claim(tx, first, {"root": 3})
        got.extend(chat.id for chat in claimed["root"])
        taken.set()
        await go.wait()

    async with anyio.create_task_group() as group:
        group.start_soon(chats.db.write, slowly)
        await taken.wait()
        others = await chats.do(claims.claim, second, {"root": 10})
        go.set()
    assert got == ["c0", "c1", "c2"]
    assert [chat.id for chat in others["root"]] == ["c3", "c4", "c5"]
    rows = [await chats.row(f"c{number}") for number in range(6)]
    assert [(row.worker_id, row.epoch, row.crashes) for row in rows] == [
        *[("w1", 1, 0)] * 3,
        *[("w2", 1, 0)] * 3,
    ]


async def test_many_workers_that_race_for_chats_get_each_of_them_once(chats: Chats) -> None:
    for number in range(12):
        await chats.create(f"c{number:02}")
    got: list[str] = []

    async def work(name: str) -> None:
        while claimed := await chats.claim(worker=name, limit=2):
            got.extend(claimed)

    async with anyio.create_task_group() as group:
        for name in ("w1", "w2", "w3"):
            group.start_soon(work, name)
    # A chat that another one was just looking at may be left for the next poll.
    got += await chats.claim(worker="w4")
    assert sorted(got) == [f"c{number:02}" for number in range(12)]
    assert {(await chats.row(id)).epoch for id in got} == {1}


# --- chats that kill ---


async def crash(chats: Chats, worker: str) -> None:
    """Whoever has the chat is not heard of any more, and somebody else comes."""
    chats.clock.advance(16)
    await chats.claim("root", worker=worker)


async def test_a_chat_that_killed_three_workers_is_parked(
    chats: Chats, caplog: pytest.LogCaptureFixture
) -> None:
    await chats.running("c1", queue=("queue",))
    for number in range(1, MAX_CRASHES):
        await crash(chats, f"v{number}")
        assert (await chats.row()).crashes == number
    chats.take_notices()
    chats.clock.advance(16)
    assert await chats.claim("root", worker="last") == []
    chat = await chats.row()
    assert (chat.status, chat.outcome, chat.worker_id) == (Status.ERROR, TurnOutcome("error"), None)
    assert chat.error is not None
    assert (chat.error.kind, chat.crashes, chat.epoch) == ("poison", 0, MAX_CRASHES + 1)
    (line,) = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert line.startswith(f"turn failed: kind poison, chat {chat.id}, ")
    assert [type(notice).__name__ for notice in chats.take_notices()] == ["Changed"]
    assert await chats.queued() == ["q1"]


async def test_a_chat_that_is_parked_takes_no_place_in_a_batch(chats: Chats) -> None:
    """A batch that is not full says that nobody is left: others would wait for the next poll."""
    await chats.running("c1")
    for number in range(1, MAX_CRASHES):
        await crash(chats, f"v{number}")
    await chats.create("c2")
    await chats.create("c3")
    chats.clock.advance(16)
    assert await chats.claim("root", worker="last", limit=1) == ["c2"]
    assert (await chats.row("c1")).status is Status.ERROR
    assert await chats.claim("root", worker="last", limit=2) == ["c3"]


async def test_what_had_arrived_of_an_answer_is_shown_to_people_when_its_chat_is_parked(
    chats: Chats,
) -> None:
    await chats.running("c1")
    for number in range(1, MAX_CRASHES):
        await crash(chats, f"v{number}")
    fence = fence_of(await chats.row())
    await chats.do(runner.write_partial, fence, 1, answer("half"))
    await crash(chats, "last")
    *_, last = await chats.history()
    assert (last.message.text, last.message.visibility) == ("half", "user")
    assert last.message.finish == "error"
    assert (await chats.everything())["partials"] == []


async def test_a_parked_chat_can_be_tried_again_with_a_new_count(chats: Chats) -> None:
    await chats.running("c1")
    for number in range(MAX_CRASHES):
        await crash(chats, f"v{number}")
    assert (await chats.do(user.retry, "c1")).status is Status.RUNNING
    assert await chats.claim(worker="w9") == ["c1"]
    assert (await chats.row()).crashes == 0


async def test_an_action_that_kills_whoever_expires_it_is_parked_too(chats: Chats) -> None:
    await chats.requires_action("c1", owned=True)
    for number in range(MAX_CRASHES):
        chats.clock.advance(16)
        await chats.claim("urgent", worker=f"v{number}")
    chat = await chats.row()
    assert (chat.status, chat.deadline) == (Status.ERROR, None)


async def test_whatever_is_committed_forgets_the_crashes_before_it(chats: Chats) -> None:
    async def commits(id: str) -> None:
        await chats.commit(id, answer("a step"))

    async def does_more(id: str) -> None:
        fence = fence_of(await chats.row(id))
        await chats.do(runner.commit_step, fence, runner.Outcome(messages=(answer("a step"),)))

    async def finishes_a_call(id: str) -> None:
        await chats.commit(id, answer("calls", asks("a")))
        chats.clock.advance(16)
        await chats.claim(worker="again")
        chat = await chats.row(id)
        assert chat.crashes == 1
        row = row_of_call(chat, "a", "finished", result=made("a"))
        assert await chats.do(runner.finish_call, id, row)

    async def settles(id: str) -> None:
        chat = await chats.do(user.interrupt, id)
        await chats.do(runner.settle, fence_of(chat), leftover())

    for number, progress in enumerate([commits, does_more, finishes_a_call, settles]):
        id = f"c{number}"
        await chats.running(id)
        await crash(chats, f"v{number}")
        assert (await chats.row(id)).crashes == 1
        await progress(id)
        assert (await chats.row(id)).crashes == 0, progress.__name__


async def test_an_action_that_expired_forgets_the_crashes_before_it(chats: Chats) -> None:
    await chats.requires_action("c1", calls={"a": 10, "b": None}, owned=True)
    chats.clock.advance(16)
    assert await chats.claim("urgent", worker="w2") == ["c1"]
    assert (await chats.row()).crashes == 1
    advanced = await chats.do(runner.expire, fence_of(await chats.row()))
    assert (advanced.chat.status, advanced.chat.crashes) == (Status.REQUIRES_ACTION, 0)


async def test_a_title_or_a_message_is_no_progress(chats: Chats) -> None:
    await chats.running("c1")
    await crash(chats, "w2")
    await chats.send("c1", "are you there?")
    await chats.do(user.update, "c1", {"title": "x"})
    assert (await chats.row()).crashes == 1


# --- parents that wait for children ---


async def waiting_parent(chats: Chats, *children: str) -> None:
    """`parent` waits for these, in one call."""
    await chats.running("parent")
    for number, child in enumerate(children):
        await chats.child("parent", child, call=f"spawn{number}")
    await chats.commit("parent", answer("now wait", asks("wait")))
    chat = await chats.row("parent")
    row = row_of_call(chat, "wait", "waiting", action="child")
    await chats.do(runner.require_action, fence_of(chat), [row], {"wait": children})
    assert (await chats.row("parent")).status is Status.REQUIRES_ACTION


async def test_a_parent_is_claimed_when_all_its_awaited_children_are_at_rest(
    chats: Chats,
) -> None:
    await waiting_parent(chats, "k1", "k2")
    assert await chats.claim("urgent") == []
    await chats.rest("k1")
    assert await chats.claim("urgent") == []
    chats.take_notices()
    await chats.rest("k2")
    told = [(type(n).__name__, getattr(n, "chat", "")) for n in chats.take_notices()]
    assert told[-1] == ("Claimable", "parent")
    assert await chats.claim("urgent") == ["parent"]
    advanced = await chats.do(runner.expire, fence_of(await chats.row("parent")))
    assert advanced.chat.status is Status.RUNNING
    assert [s.message.results[0].outcome for s in advanced.appended] == ["ok"]
    report = advanced.appended[0].message.results[0].text
    assert "k1 is done" in report
    assert "k2 is done" in report
    assert (await chats.everything())["awaited"] == []


async def test_whoever_begins_to_wait_for_a_child_has_somebody_look_whether_it_rests_by_now(
    chats: Chats,
) -> None:
    """Its end may be committed beside the wait, and was then told before there was one."""
    await chats.running("parent")
    await chats.child("parent", "k1")
    await chats.commit("parent", answer("now wait", asks("wait")))
    chat = await chats.row("parent")
    row = row_of_call(chat, "wait", "waiting", action="child")
    chats.take_notices()
    await chats.do(runner.require_action, fence_of(chat), [row], {"wait": ["k1"]})
    assert Claimable("parent") in chats.take_notices()


async def test_a_child_that_waits_for_a_person_keeps_its_parent_waiting(chats: Chats) -> None:
    await waiting_parent(chats, "k1")
    assert await chats.claim("child") == ["k1"]
    await chats.commit("k1", answer("may I?", asks("a")))
    chat = await chats.row("k1")
    await chats.do(runner.require_action, fence_of(chat), [row_of_call(chat, "a", "waiting")])
    assert await chats.claim("urgent") == []
    await chats.do(user.resolve, "k1", {"a": given_result("a")})
    assert await chats.claim("urgent") == []


async def test_a_child_that_failed_is_at_rest_and_its_parent_is_told_why(chats: Chats) -> None:
    from tests.chat.chats import FAILURE

    await waiting_parent(chats, "k1")
    assert await chats.claim("child") == ["k1"]
    await chats.do(runner.fail, fence_of(await chats.row("k1")), FAILURE)
    assert await chats.claim("urgent") == ["parent"]
    advanced = await chats.do(runner.expire, fence_of(await chats.row("parent")))
    assert FAILURE.message in advanced.appended[0].message.results[0].text


async def test_a_parent_whose_awaited_children_are_gone_goes_on(chats: Chats) -> None:
    await waiting_parent(chats, "k1")
    await chats.do(user.interrupt, "k1")
    assert await chats.claim("urgent") == ["k1"]
    await chats.do(runner.settle, fence_of(await chats.row("k1")), leftover())
    chats.take_notices()
    await chats.do(lifecycle.delete, "k1")
    assert ("Claimable", "parent") in [
        (type(n).__name__, getattr(n, "chat", "")) for n in chats.take_notices()
    ]
    assert await chats.claim("urgent") == ["parent"]
    advanced = await chats.do(runner.expire, fence_of(await chats.row("parent")))
    assert advanced.chat.status is Status.RUNNING


async def test_a_parent_that_waits_for_children_at_rest_goes_on_at_once(chats: Chats) -> None:
    await chats.running("parent")
    await chats.child("parent", "k1")
    await chats.rest("k1")
    await chats.commit("parent", answer("now wait", asks("wait")))
    chat = await chats.row("parent")
    row = row_of_call(chat, "wait", "waiting", action="child")
    parked = await chats.do(runner.require_action, fence_of(chat), [row], {"wait": ["k1"]})
    assert (parked.chat.status, parked.chat.worker_id) == (Status.REQUIRES_ACTION, ME)
    advanced = await chats.do(runner.expire, parked.fence)
    assert advanced.chat.status is Status.RUNNING


async def test_a_parent_that_rests_again_while_its_children_do_is_not_left_waiting(
    chats: Chats,
) -> None:
    """The wait began before; in between something else was approved and run."""
    await chats.running("parent")
    await chats.child("parent", "k1")
    await chats.commit("parent", answer("both", asks("wait"), asks("other")))
    chat = await chats.row("parent")
    rows = [
        row_of_call(chat, "wait", "waiting", action="child"),
        row_of_call(chat, "other", "waiting"),
    ]
    await chats.do(runner.require_action, fence_of(chat), rows, {"wait": ["k1"]})
    await chats.rest("k1")
    await chats.send("parent", "go on")  # changes nothing about the wait
    assert await chats.claim("urgent") == ["parent"]
    await chats.do(runner.release, fence_of(await chats.row("parent")))
    assert await chats.claim("urgent") == ["parent"]
    advanced = await chats.do(runner.expire, fence_of(await chats.row("parent")))
    assert advanced.chat.status is Status.REQUIRES_ACTION
    assert await chats.claim("urgent") == []


async def test_a_parent_that_waits_again_for_children_at_rest_goes_on_at_once(
    chats: Chats,
) -> None:
    """It need not say again for whom it waits."""
    await chats.running("parent")
    await chats.child("parent", "k1")
    await chats.commit("parent", answer("both", asks("wait"), asks("other")))
    chat = await chats.row("parent")
    rows = [
        row_of_call(chat, "wait", "waiting", action="child"),
        row_of_call(chat, "other", "waiting", action="approval"),
    ]
    await chats.do(runner.require_action, fence_of(chat), rows, {"wait": ["k1"]})
    await chats.do(user.resolve, "parent", {"other": approval("other")})
    await chats.rest("k1")
    assert (await chats.row("parent")).worker_id == ME  # it was claimed meanwhile
    fence = fence_of(await chats.row("parent"))
    ran = await chats.do(runner.commit_step, fence, runner.Outcome(results=(made("other"),)))
    parked = await chats.do(runner.require_action, ran.fence, [])
    assert (parked.chat.status, parked.chat.worker_id) == (Status.REQUIRES_ACTION, ME)
    advanced = await chats.do(runner.expire, parked.fence)
    assert advanced.chat.status is Status.RUNNING


async def test_a_child_without_a_message_waits_for_its_parent(chats: Chats) -> None:
    chat = await chats.running("parent", calls={"spawn": "open"})
    new = NewChat(id="k1", agent="agent", message=None)
    outcome = runner.Outcome(results=(made("spawn"),), writes={"spawn": (lifecycle.Spawn(new),)})
    await chats.do(runner.commit_step, fence_of(chat), outcome)
    assert (await chats.row("k1")).status is Status.IDLE
    assert await chats.claim("child") == []
