"""PostgreSQL as a store: what is promised of every store, kept when connections and servers die."""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from typing import Any, Final, TypeAlias

import anyio
import asyncpg
import pytest

from holdfast.store.database import (
    MAX_GROUP_SIZE,
    OUTCOME_TIMEOUT,
    CannotOpen,
    Changed,
    Claimable,
    Database,
    NoticesLost,
    OutcomeUnknown,
    StoreError,
    Tx,
    Unavailable,
    Violation,
)
from holdfast.store.migrate import migrations
from holdfast.store.postgres.connect import CONNECTION_SETTINGS, check_server
from holdfast.store.postgres.database import Postgres, open_postgres
from holdfast.store.postgres.listener import PROBE_INTERVAL
from holdfast.testing import START, Clock, VirtualLoop
from holdfast.testing.postgres import Server, running
from tests import database_time
from tests.databases import Databases
from tests.store.postgres.proxy import proxied
from tests.store.sample_table import (
    SCHEMA,
    NoticeRecorder,
    Put,
    Putting,
    inserting,
    notifying,
    values,
)

Raw: TypeAlias = "asyncpg.Connection[Any]"


@pytest.fixture(scope="module")
def things(databases: Databases) -> Iterator[str]:
    """The name of a database with the table `things`."""
    name = databases.take()

    async def prepare() -> None:
        async with open_postgres(databases.url(name)) as db:
            await db.change_schema(lambda tx: tx.script(SCHEMA))

    databases.run(prepare())
    yield name
    databases.drop(name)


@pytest.fixture
def url(databases: Databases, things: str) -> Iterator[str]:
    """Of the database with the table `things`, which is empty."""
    yield databases.url(things)
    databases.empty(things)


def opened(url: str, **more: Any) -> AbstractAsyncContextManager[Postgres]:
    return open_postgres(url, **{"probe": None, **more})


@pytest.fixture
async def db(url: str) -> AsyncIterator[Postgres]:
    async with opened(url) as database:
        yield database


@asynccontextmanager
async def session(url: str) -> AsyncIterator[Raw]:
    """Somebody else who is connected."""
    raw = await asyncpg.connect(url)
    try:
        yield raw
    finally:
        await raw.close()


async def kill(raw: Raw, which: str) -> int:
    """End the connections of holdfast whose last statement was like this."""
    return len(
        await raw.fetch(
            """
            SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
             WHERE datname = current_database() AND application_name = 'holdfast'
               AND query LIKE $1
            """,
            which,
        )
    )


async def soon(check: str, raw: Raw, expected: object = True) -> None:
    """Wait for what other sessions do, in real time."""
    deadline = time.monotonic() + 10
    while await raw.fetchval(check) != expected:
        assert time.monotonic() < deadline, check


WAITS: Final = (
    "SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
    "AND application_name = 'holdfast' AND datname = current_database())"
)

# --- Statements ----------------------------------------------------------------------------------


async def test_a_statement_says_how_many_rows_it_changed(db: Postgres) -> None:
    async def change(tx: Tx) -> list[int]:
        insert = "INSERT INTO things (id, value) VALUES (:id, :value)"
        await tx.execute_many(insert, [{"id": id, "value": "a"} for id in "xyz"])
        await tx.execute_many(insert, [])
        return [
            await tx.execute(insert, {"id": "w", "value": "b"}),
            await tx.execute("UPDATE things SET value = :value", {"value": "c"}),
            await tx.execute("UPDATE things SET value = 'd' WHERE id = 'nobody'"),
            await tx.execute("DELETE FROM things WHERE id = :id", {"id": "w"}),
            await tx.execute("SELECT 1 FROM things"),
        ]

    assert await db.write(change) == [1, 4, 0, 1, 0]


async def test_rows_are_read_like_tuples(db: Postgres) -> None:
    async def read(tx: Tx) -> list[Any]:
        condition = tx.dialect.one_of("id", "ids")
        row = await tx.one("SELECT id, epoch FROM things WHERE id = :id", {"id": "x"})
        assert row
        id, epoch = row
        return [
            await tx.fetch(f"SELECT id, epoch FROM things WHERE {condition}", {"ids": ["x", "q"]}),
            (id, epoch),
            row[0],
            await tx.one("SELECT id FROM things WHERE id = 'nobody'"),
        ]

    await db.write(inserting("x", "y"))
    assert await db.read(read) == [[("x", 1)], ("x", 1), "x", None]


async def test_the_clock_is_the_databases_unless_another_is_given(url: str) -> None:
    async def read(tx: Tx) -> int:
        row = await tx.one(f"SELECT {tx.dialect.now}")
        assert row
        now: int = row[0]
        return now

    async with opened(url) as db, opened(url, now=Clock().now) as timed:
        assert abs(await db.read(read) - time.time() * 1e6) < 60e6
        assert await timed.read(read) == START
        await asyncio.sleep(2)
        assert await timed.write(read) == START + 2_000_000


async def test_a_parameter_without_a_value_is_named(db: Postgres) -> None:
    with pytest.raises(StoreError, match="no value was given for :id"):
        await db.read(lambda tx: tx.fetch("SELECT :id"))


async def test_a_wrong_statement_is_an_error_of_the_store(db: Postgres) -> None:
    with pytest.raises(StoreError, match=r"42601.*syntax error"):
        await db.read(lambda tx: tx.fetch("SELEC 1"))


# --- Transactions --------------------------------------------------------------------------------


async def test_what_a_transaction_raises_rolls_it_back_and_tells_nobody(db: Postgres) -> None:
    ear = NoticeRecorder(db)

    async def fail(tx: Tx) -> None:
        await inserting("x")(tx)
        tx.notify(Changed("x", 1))
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await db.write(fail)
    await db.write(inserting("y"))
    assert await values(db) == {"y": "new"}
    assert ear.notices == []


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("wrong", "things_value_check"),
        ("guarded", "the guard says no"),
        ("a\0b", "cannot hold this value"),
        ("\ud800", "cannot hold this value"),
    ],
)
async def test_a_row_that_the_database_refuses_is_a_violation(
    db: Postgres, value: str, words: str
) -> None:
    await db.write(inserting("x"))
    with pytest.raises(Violation, match=words):
        await db.write(lambda tx: Putting().alone(tx, Put("x", value)))
    assert await values(db) == {"x": "new"}


async def test_a_key_that_exists_is_a_violation(db: Postgres) -> None:
    with pytest.raises(Violation, match="things_pkey"):
        await db.write(inserting("x", "x"))
    assert await values(db) == {}


async def test_an_error_that_the_function_hides_still_rolls_back_and_is_raised(
    db: Postgres,
) -> None:
    async def hide(tx: Tx) -> None:
        await inserting("x")(tx)
        with pytest.raises(Violation):
            await inserting("x")(tx)

    with pytest.raises(Violation, match="things_pkey"):
        await db.write(hide)
    assert await values(db) == {}


async def test_a_transaction_that_is_over_can_do_nothing_more(db: Postgres) -> None:
    kept: list[Tx] = []

    async def keep(tx: Tx) -> None:
        kept.append(tx)

    await db.write(keep)
    await db.read(keep)
    for tx in kept:
        with pytest.raises(StoreError, match="is over"):
            await tx.execute("DELETE FROM things")


async def test_a_read_sees_one_moment(db: Postgres) -> None:
    await db.write(inserting("x"))

    async def read(tx: Tx) -> list[int]:
        before = await tx.fetch("SELECT id FROM things")
        await db.write(inserting("y"))
        return [len(before), len(await tx.fetch("SELECT id FROM things"))]

    assert await db.read(read) == [1, 1]
    assert len(await values(db)) == 2


async def test_a_read_neither_writes_nor_tells(db: Postgres) -> None:
    async def tell(tx: Tx) -> None:
        tx.notify(Changed("x", 1))

    with pytest.raises(StoreError, match="use write"):
        await db.read(inserting("x"))
    with pytest.raises(StoreError, match="use write"):
        await db.read(tell)
    assert await values(db) == {}


async def test_a_write_sees_what_others_commit_meanwhile(db: Postgres) -> None:
    async def read(tx: Tx) -> list[int]:
        before = await tx.fetch("SELECT id FROM things")
        async with session_of(db) as other:
            await other.write(inserting("y"))
        return [len(before), len(await tx.fetch("SELECT id FROM things"))]

    assert await db.write(read) == [0, 1]


def session_of(db: Postgres) -> AbstractAsyncContextManager[Postgres]:
    return opened(db._url)


async def test_a_database_that_may_only_be_read_says_so(db: Postgres) -> None:
    async def write(tx: Tx) -> None:
        await tx.execute("SET TRANSACTION READ ONLY")
        await inserting("x")(tx)

    with pytest.raises(Unavailable, match="read-only"):
        await db.write(write)


# --- Others in the way ---------------------------------------------------------------------------


async def test_of_two_in_a_deadlock_both_are_committed(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(CONNECTION_SETTINGS, "deadlock_timeout", "20ms")
    met = asyncio.Barrier(2)
    runs = 0

    def changing(first: str, second: str) -> Any:
        async def change(tx: Tx) -> None:
            nonlocal runs
            runs += 1
            sql = "UPDATE things SET value = value || :id WHERE id = :id"
            await tx.execute(sql, {"id": first})
            if runs <= 2:
                await met.wait()
            await tx.execute(sql, {"id": second})

        return change

    async with opened(url) as db:
        await db.write(inserting("x", "y", value="-"))
        await asyncio.gather(db.write(changing("x", "y")), db.write(changing("y", "x")))
        assert await values(db) == {"x": "-xx", "y": "-yy"}
    assert runs > 2


async def test_a_row_that_stays_locked_is_given_up_after_a_few_tries(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(CONNECTION_SETTINGS, "lock_timeout", "10ms")
    bulk = Putting()
    async with opened(url) as db, session(url) as other:
        await db.write(inserting("x"))
        async with other.transaction():
            await other.execute("SELECT 1 FROM things FOR UPDATE")
            with pytest.raises(Unavailable, match="locked by others"):
                await db.write(lambda tx: bulk.alone(tx, Put("x", "mine")))
        assert len(bulk.alones) == 4
        assert await db.write(lambda tx: bulk.alone(tx, Put("x", "mine"))) == 2


async def test_more_transactions_than_connections_take_turns(url: str) -> None:
    async with opened(url, pool=2) as db:
        await asyncio.gather(*(db.write(inserting(f"{number}")) for number in range(20)))
        assert len(await values(db)) == 20


# --- Together ------------------------------------------------------------------------------------


async def put(db: Database, bulk: Putting, *wanted: Put) -> list[int | BaseException]:
    return await asyncio.gather(
        *(db.write_together(bulk, one) for one in wanted), return_exceptions=True
    )


async def test_those_who_wait_at_the_same_time_share_a_statement(db: Postgres) -> None:
    bulk, ear = Putting(), NoticeRecorder(db)
    await db.write(inserting("a", "b", "c"))
    wanted = [Put(id, f"to {id}") for id in "abc"]
    assert await put(db, bulk, *wanted) == [2, 2, 2]
    assert bulk.groups == [["a", "b", "c"]]
    assert bulk.alones == []
    assert await values(db) == {"a": "to a", "b": "to b", "c": "to c"}
    assert sorted(ear.notices, key=str) == [Changed(id, 2) for id in "abc"]


async def test_those_who_come_while_a_group_is_committed_are_the_next_group(db: Postgres) -> None:
    class Slow(Putting):
        begun, go_on = asyncio.Event(), asyncio.Event()

        async def together(self, tx: Tx, many: Sequence[Put]) -> Sequence[int | None]:
            self.begun.set()
            await self.go_on.wait()
            return await super().together(tx, many)

    bulk = Slow()
    await db.write(inserting("a", "b", "c"))
    first = asyncio.ensure_future(db.write_together(bulk, Put("a", "1")))
    await bulk.begun.wait()
    others = asyncio.ensure_future(put(db, bulk, Put("b", "1"), Put("c", "1")))
    await asyncio.sleep(0)
    bulk.go_on.set()
    assert [await first, *await others] == [2, 2, 2]
    assert bulk.groups == [["a"], ["b", "c"]]


async def test_two_of_the_same_chat_go_one_after_the_other(db: Postgres) -> None:
    bulk = Putting()
    await db.write(inserting("a", "b"))
    wanted = [Put("a", "first"), Put("a", "second", epoch=2), Put("b", "only")]
    assert await put(db, bulk, *wanted) == [2, 3, 2]
    assert bulk.groups == [["a", "b"], ["a"]]


async def test_a_group_has_a_limit(db: Postgres) -> None:
    bulk = Putting()
    ids = [f"{number:02}" for number in range(MAX_GROUP_SIZE + 1)]
    await db.write(inserting(*ids))
    assert await put(db, bulk, *(Put(id, "x") for id in ids)) == [2] * len(ids)
    assert list(map(len, bulk.groups)) == [MAX_GROUP_SIZE, 1]


async def test_different_transactions_do_not_share_a_statement(db: Postgres) -> None:
    one, other = Putting(), Putting()
    await db.write(inserting("a", "b", "c"))
    await asyncio.gather(
        db.write_together(one, Put("a", "x")),
        db.write_together(other, Put("b", "x")),
        db.write_together(one, Put("c", "x")),
    )
    assert (one.groups, other.groups) == ([["a", "c"]], [["b"]])


async def test_one_whose_fence_is_lost_hears_so_and_the_others_are_committed(
    db: Postgres,
) -> None:
    bulk = Putting()
    await db.write(inserting("a", "b", "c"))
    wanted = [Put("a", "x"), Put("b", "x", epoch=7), Put("c", "x")]
    assert await put(db, bulk, *wanted) == [2, 0, 2]
    assert bulk.alones == ["b"]
    assert await values(db) == {"a": "x", "b": "new", "c": "x"}


@pytest.mark.parametrize("poison", ["a\0b", "\ud800", "wrong", "guarded"])
async def test_a_bad_row_fails_its_owner_only(db: Postgres, poison: str) -> None:
    bulk, ear = Putting(), NoticeRecorder(db)
    await db.write(inserting("a", "b", "c"))
    outcomes = await put(db, bulk, Put("a", "x"), Put("b", poison), Put("c", "x"))
    assert (outcomes[0], outcomes[2]) == (2, 2)
    assert isinstance(outcomes[1], Violation)
    assert await values(db) == {"a": "x", "b": "new", "c": "x"}
    assert sorted(ear.notices, key=str) == [Changed("a", 2), Changed("c", 2)]


async def test_a_function_that_fails_before_its_statement_fails_its_owner_only(
    db: Postgres,
) -> None:
    class Picky(Putting):
        async def together(self, tx: Tx, many: Sequence[Put]) -> Sequence[int | None]:
            for one in many:
                self.look_at(one)
            return await super().together(tx, many)

        async def alone(self, tx: Tx, one: Put) -> int:
            self.look_at(one)
            return await super().alone(tx, one)

        def look_at(self, one: Put) -> None:
            if one.chat == "b":
                raise KeyError("b")

    await db.write(inserting("a", "b"))
    outcomes = await put(db, Picky(), Put("a", "x"), Put("b", "x"))
    assert outcomes[0] == 2
    assert isinstance(outcomes[1], KeyError)


async def test_a_function_that_fails_after_its_statement_leaves_the_outcome_unknown(
    db: Postgres,
) -> None:
    class Clumsy(Putting):
        async def together(self, tx: Tx, many: Sequence[Put]) -> Sequence[int | None]:
            await super().together(tx, many)
            raise KeyError("too late")

    bulk, ear = Clumsy(), NoticeRecorder(db)
    await db.write(inserting("a", "b"))
    outcomes = await put(db, bulk, Put("a", "x"), Put("b", "x"))
    assert [type(each) for each in outcomes] == [OutcomeUnknown, OutcomeUnknown]
    assert bulk.alones == []
    assert await values(db) == {"a": "x", "b": "x"}
    assert ear.notices == []


async def test_a_group_is_one_statement_and_not_two(db: Postgres) -> None:
    class Two(Putting):
        async def together(self, tx: Tx, many: Sequence[Put]) -> Sequence[int | None]:
            outcomes = await super().together(tx, many)
            await tx.execute("DELETE FROM things")
            return outcomes

    await db.write(inserting("a"))
    outcomes = await put(db, Two(), Put("a", "x"))
    assert isinstance(outcomes[0], OutcomeUnknown)
    assert "one statement" in str(outcomes[0])
    assert await values(db) == {"a": "x"}


async def test_a_chat_that_somebody_holds_drops_out_and_goes_alone(db: Postgres, url: str) -> None:
    bulk = Putting()
    await db.write(inserting("a", "b", "c"))
    async with session(url) as other:
        async with other.transaction():
            await other.execute("UPDATE things SET epoch = epoch + 1 WHERE id = 'b'")
            tasks = [
                asyncio.ensure_future(db.write_together(bulk, Put(id, "mine"))) for id in "abc"
            ]
            assert [await tasks[0], await tasks[2]] == [2, 2]
            await soon(WAITS, other)
            assert not tasks[1].done()
        assert await tasks[1] == 0
    assert bulk.alones == ["b"]
    assert await values(db) == {"a": "mine", "b": "new", "c": "mine"}


async def test_two_committers_that_want_the_same_chats_share_them_without_a_deadlock(
    db: Postgres, url: str
) -> None:
    ids = [f"{number:02}" for number in range(40)]
    await db.write(inserting(*ids))
    rounds = 10
    won = lost = 0
    async with opened(url) as other:
        for epoch in range(1, rounds + 1):
            forth = [Put(id, "forth", epoch) for id in ids]
            back = [Put(id, "back", epoch) for id in reversed(ids)]
            for outcomes in await asyncio.gather(
                put(db, Putting(), *forth), put(other, Putting(), *back)
            ):
                won += outcomes.count(epoch + 1)
                lost += outcomes.count(0)
    assert (won, lost) == (40 * rounds, 40 * rounds)


# --- Lost connections ----------------------------------------------------------------------------


async def test_a_connection_lost_before_the_commit_changes_nothing(db: Postgres, url: str) -> None:
    async with session(url) as other:

        async def die(tx: Tx) -> None:
            await inserting("x")(tx)
            row = await tx.one("SELECT pg_backend_pid()")
            assert row
            await other.execute("SELECT pg_terminate_backend($1, 5000)", row[0])
            await inserting("y")(tx)

        with pytest.raises(Unavailable):
            await db.write(die)
    assert await values(db) == {}


async def test_a_connection_lost_after_the_last_statement_changes_nothing(
    db: Postgres, url: str
) -> None:
    async with session(url) as other:

        async def die(tx: Tx) -> None:
            await inserting("x")(tx)
            row = await tx.one("SELECT pg_backend_pid()")
            assert row
            await other.execute("SELECT pg_terminate_backend($1, 5000)", row[0])
            for _ in range(100):  # until the end of the connection has been seen
                await asyncio.sleep(0)

        with pytest.raises(Unavailable):
            await db.write(die)
    assert await values(db) == {}


@pytest.mark.parametrize("forward", [True, False])
async def test_a_connection_lost_during_the_commit_leaves_the_outcome_unknown(
    url: str, forward: bool
) -> None:
    async with proxied(url) as proxy, opened(proxy.url) as db:
        ear = NoticeRecorder(db)

        async def tell(tx: Tx) -> None:
            await inserting("x")(tx)
            tx.notify(Changed("x", 1))

        proxy.cut_at("COMMIT", forward=forward)
        with pytest.raises(OutcomeUnknown, match="read it back"):
            await db.write(tell)
        assert proxy.cuts == 1
        assert await values(db) == ({"x": "new"} if forward else {})
        assert ear.notices == []


async def test_a_connection_that_died_while_nobody_used_it_is_replaced(url: str) -> None:
    async with proxied(url) as proxy, opened(proxy.url) as db:
        await db.write(inserting("x"))
        proxy.cut_at("BEGIN", forward=False)
        await db.write(inserting("y"))
        assert proxy.cuts == 1
        assert await values(db) == {"x": "new", "y": "new"}


async def test_all_connections_that_were_ended_while_idle_are_replaced(
    db: Postgres, url: str
) -> None:
    await asyncio.gather(*(db.write(inserting(f"{number}")) for number in range(5)))
    async with session(url) as other:
        assert await kill(other, "%") >= 5
    await asyncio.gather(*(db.write(inserting(f"again {number}")) for number in range(5)))
    assert len(await values(db)) == 10


async def test_a_read_whose_connection_is_lost_is_read_again(url: str) -> None:
    async with proxied(url) as proxy, opened(proxy.url) as db:
        await db.write(inserting("x"))
        proxy.cut_at("SELECT id, value", forward=True)
        assert await values(db) == {"x": "new"}
        assert proxy.cuts == 1


@pytest.mark.parametrize("forward", [True, False])
async def test_a_connection_lost_during_a_group_leaves_every_outcome_unknown(
    url: str, forward: bool
) -> None:
    bulk = Putting()
    async with proxied(url) as proxy, opened(proxy.url) as db:
        await db.write(inserting("a", "b"))
        assert await put(db, bulk, Put("a", "1"), Put("b", "1")) == [2, 2]
        proxy.cut_at("unmistakable", forward=forward)
        wanted = [Put("a", "unmistakable", epoch=2), Put("b", "2", epoch=2)]
        outcomes = await put(db, bulk, *wanted)
        assert [type(each) for each in outcomes] == [OutcomeUnknown, OutcomeUnknown]
        assert bulk.alones == []
        now = {"a": "unmistakable", "b": "2"} if forward else {"a": "1", "b": "1"}
        assert await values(db) == now
        again = await put(db, bulk, *(Put(id, "3", epoch=3 if forward else 2) for id in "ab"))
        assert again == [4, 4] if forward else [3, 3]


async def test_a_group_whose_connection_was_ended_while_idle_takes_another(
    db: Postgres, url: str
) -> None:
    bulk = Putting()
    await db.write(inserting("a"))
    assert await put(db, bulk, Put("a", "1")) == [2]
    async with session(url) as other:
        assert await kill(other, "%WITH wanted%") == 1
    for _ in range(100):  # until the end of the connection has been seen
        await asyncio.sleep(0)
    assert await put(db, bulk, Put("a", "2", epoch=2)) == [3]


# --- Cancelled callers ---------------------------------------------------------------------------


async def test_a_cancelled_caller_waits_for_its_transaction_which_is_committed(
    db: Postgres, url: str
) -> None:
    await db.write(inserting("a"))
    async with session(url) as other:
        async with other.transaction():
            await other.execute("SELECT 1 FROM things FOR UPDATE")
            with anyio.CancelScope() as scope:
                writing = asyncio.ensure_future(
                    db.write(lambda tx: Putting().alone(tx, Put("a", "mine")))
                )
                await soon(WAITS, other)
                writing.cancel()
                for _ in range(10):
                    await asyncio.sleep(0)
                assert not writing.done()
                scope.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
    assert await values(db) == {"a": "mine"}


async def test_a_caller_that_is_cancelled_in_a_group_takes_nobody_with_it(db: Postgres) -> None:
    bulk = Putting()
    await db.write(inserting("a", "b"))
    first, second = (asyncio.ensure_future(db.write_together(bulk, Put(id, "mine"))) for id in "ab")
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert await second == 2
    assert await values(db) == {"a": "mine", "b": "mine"}


async def test_a_cancelled_read_ends_at_once_and_frees_its_connection(url: str) -> None:
    async with opened(url, pool=1) as db, session(url) as other:
        reading = asyncio.ensure_future(db.read(lambda tx: tx.fetch("SELECT pg_sleep(14)")))
        await soon("SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%(14)'", other, 1)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        await db.write(inserting("x"))


# --- Notices -------------------------------------------------------------------------------------


async def test_a_notice_reaches_every_process_and_its_own_only_once(db: Postgres, url: str) -> None:
    async with opened(url) as other:
        here, there = NoticeRecorder(db), NoticeRecorder(other)
        await db.write(notifying(Changed("x", 1), Claimable("x")))
        assert here.notices == [Changed("x", 1), Claimable("x")]
        await there.until(Claimable("x"))
        await other.write(notifying(Claimable("y")))
        await here.until(Claimable("y"))  # behind what came back of its own
        assert here.notices == [Changed("x", 1), Claimable("x"), Claimable("y")]
        assert there.notices == [Changed("x", 1), Claimable("x"), Claimable("y")]


async def test_the_notices_of_a_group_are_one_notification(db: Postgres, url: str) -> None:
    ids = [f"{number:02}" for number in range(MAX_GROUP_SIZE)]
    await db.write(inserting(*ids))
    payloads: list[object] = []
    async with opened(url) as other, session(url) as raw:
        await raw.add_listener("holdfast_changed", lambda *heard: payloads.append(heard[-1]))
        there = NoticeRecorder(other)
        await put(db, Putting(), *(Put(id, "x") for id in ids))
        for id in ids:
            await there.until(Changed(id, 2))
        await raw.execute("NOTIFY holdfast_changed, 'last'")  # what came before it is told before
        while payloads[-1:] != ["last"]:
            await raw.execute("SELECT 1")
    assert len(payloads) == 2


def standing_still() -> AbstractContextManager[None]:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return loop.hold_time()


async def test_many_commits_of_a_moment_cost_two_notifications_and_the_last_is_told(
    db: Postgres, url: str
) -> None:
    await db.write(inserting("x"))
    payloads: list[object] = []
    async with opened(url) as other, session(url) as raw:
        await raw.add_listener("holdfast_changed", lambda *heard: payloads.append(heard[-1]))
        there = NoticeRecorder(other)
        with standing_still():  # however long the database takes, it is one moment
            for epoch in range(1, 21):
                await put(db, Putting(), Put("x", "y", epoch))
        await there.until(Changed("x", 21))
        while '["x",21]' not in str(payloads[-1:]):  # not all sessions are told at once
            await raw.execute("SELECT 1")
    assert there.notices == [Changed("x", 2), Changed("x", 21)]
    assert len(payloads) == 2


async def test_what_was_told_last_is_sent_before_it_closes(url: str) -> None:
    loop = asyncio.get_running_loop()
    async with opened(url) as other:
        there = NoticeRecorder(other)
        async with opened(url) as db:
            for version in range(1, 4):
                await db.write(notifying(Changed("x", version)))
            now = loop.time()
        assert loop.time() == now
        await there.until(Changed("x", 3))


async def test_whoever_stops_listening_hears_nothing_more(db: Postgres) -> None:
    ear = NoticeRecorder(db)
    ear.end()
    await db.write(notifying(Changed("x", 1)))
    assert ear.notices == []


async def test_after_a_lost_connection_it_listens_again_and_says_that_it_missed_something(
    db: Postgres, url: str
) -> None:
    async with opened(url) as other, session(url) as raw:
        here, there = NoticeRecorder(db), NoticeRecorder(other)
        for version in (1, 2):
            assert await kill(raw, "LISTEN%") == 2
            await here.until(NoticesLost())
            await there.until(NoticesLost())
            await other.write(notifying(Changed("x", version)))
            await here.until(Changed("x", version))
            here.notices.clear()
            there.notices.clear()


async def test_a_connection_that_died_silently_is_found_by_asking(url: str) -> None:
    async with proxied(url) as proxy:
        async with opened(proxy.url, probe=PROBE_INTERVAL) as db:
            ear = NoticeRecorder(db)
            loop = asyncio.get_running_loop()
            await asyncio.sleep(3 * PROBE_INTERVAL)
            assert ear.notices == []
            since = loop.time()
            proxy.silent = database_time.unheld = True

            def speak() -> None:
                proxy.silent = database_time.unheld = False

            loop.call_later(PROBE_INTERVAL + 5, speak)
            await ear.until(NoticesLost())
            assert loop.time() - since < 3 * PROBE_INTERVAL


async def test_a_stranger_on_the_channel_disturbs_nobody(db: Postgres, url: str) -> None:
    ear = NoticeRecorder(db)
    async with session(url) as raw, opened(url) as other:
        await raw.execute("SELECT pg_notify('holdfast_changed', 'hello')")
        await other.write(notifying(Changed("x", 1)))
        await ear.until(Changed("x", 1))
    assert ear.notices == [Changed("x", 1)]


# --- Opening -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server that tests may crash."""
    with running() as server:
        (server.data / "pg_hba.conf").write_text(
            "host all locked 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n"
        )
        server.stop()
        server.start()
        yield server


@pytest.fixture
def own(server: Server) -> str:
    """The URL of an empty database on it."""
    return server.create(f"own_{time.monotonic_ns()}")


async def refused(url: str, **more: Any) -> str:
    with pytest.raises(CannotOpen) as error:
        async with opened(url, **more):
            pass
    return str(error.value)


async def test_a_server_that_is_not_there_is_named(server: Server) -> None:
    said = await refused("postgresql://me:secret@127.0.0.1:1/chats")
    assert "127.0.0.1:1 cannot be reached" in said
    assert "check host and port" in said
    assert "secret" not in said


async def test_a_wrong_password_is_said_and_not_shown(own: str) -> None:
    async with session(own) as raw:
        await raw.execute("CREATE ROLE locked LOGIN PASSWORD 'right'")
    said = await refused(own.replace("holdfast@", "locked:secret@"))
    assert 'password authentication failed for user "locked"' in said
    assert "Check user and password" in said
    assert "secret" not in said


async def test_a_database_that_does_not_exist_is_named(server: Server) -> None:
    said = await refused(server.url("nowhere"))
    assert '"nowhere" does not exist' in said
    assert "createdb" in said


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:secret#1@localhost/chats",
        "postgresql://me:secret@localhost:port/chats",
        "mysql://me:secret@localhost/chats",
        "postgresql://me:[secret@localhost/chats",
    ],
)
async def test_a_url_that_cannot_be_read_is_not_shown(url: str) -> None:
    with pytest.raises(CannotOpen, match="the URL of the database cannot be read") as error:
        async with opened(url):
            pass
    assert "secret" not in "".join(traceback.format_exception(error.value))


async def test_a_database_of_another_encoding_is_refused(server: Server, own: str) -> None:
    async with session(own) as raw:
        await raw.execute(
            "CREATE DATABASE ascii ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' "
            "TEMPLATE template0"
        )
    assert "encoded in SQL_ASCII" in await refused(server.url("ascii"))


def test_a_server_that_is_too_old_is_refused() -> None:
    check_server(14, "UTF8")
    with pytest.raises(CannotOpen, match="PostgreSQL 13 is too old: 14 or later"):
        check_server(13, "UTF8")


async def test_a_database_of_a_newer_version_is_refused_by_name(own: str) -> None:
    async with opened(own), session(own) as raw:
        await raw.execute("INSERT INTO migrations VALUES (9999, 'tomorrow', 0)")
    assert "9999_tomorrow" in await refused(own)


async def test_a_database_without_its_schema_is_refused_unless_it_may_be_migrated(
    own: str,
) -> None:
    assert "holdfast migrate" in await refused(own, migrate=False)
    async with opened(own):
        pass
    async with opened(own, migrate=False):
        pass


async def test_processes_that_open_a_new_database_at_once_migrate_it_once(own: str) -> None:
    async with opened(own) as first, opened(own):
        rows = await first.read(lambda tx: tx.fetch("SELECT number FROM migrations"))
        assert len(rows) == len(migrations(first.dialect))


async def test_five_that_open_a_new_database_together_all_succeed(own: str) -> None:
    async def open_it() -> None:
        async with opened(own):
            pass

    await asyncio.gather(*(open_it() for _ in range(5)))


async def test_a_user_without_permission_is_told_so(server: Server, own: str) -> None:
    async with session(own) as raw:
        await raw.execute("CREATE ROLE guest LOGIN")
        await raw.execute("REVOKE CREATE ON SCHEMA public FROM public")
    assert "lacks a permission" in await refused(own.replace("holdfast@", "guest@"))


# --- A server that dies --------------------------------------------------------------------------


async def test_a_crashed_server_loses_nothing_and_is_used_again_when_it_is_back(
    server: Server, own: str, caplog: pytest.LogCaptureFixture
) -> None:
    bulk = Putting()
    async with opened(own) as db:
        await db.change_schema(lambda tx: tx.script(SCHEMA))
        ear = NoticeRecorder(db)
        await db.write(inserting("a", "b"))
        assert await put(db, bulk, Put("a", "kept")) == [2]
        server.crash()
        with caplog.at_level(logging.ERROR, "holdfast"):
            with pytest.raises(Unavailable, match="cannot be reached"):
                await db.write(inserting("c"))
            with pytest.raises(Unavailable, match="cannot be reached"):
                await values(db)
            assert isinstance((await put(db, bulk, Put("b", "lost")))[0], Unavailable)
            server.start()
            await ear.until(NoticesLost())
        assert await values(db) == {"a": "kept", "b": "new"}
        assert await put(db, bulk, Put("b", "kept")) == [2]
        await db.write(inserting("c"))


# --- Closing -------------------------------------------------------------------------------------


async def test_closing_waits_for_what_runs(url: str) -> None:
    async with session(url) as other:
        async with opened(url) as db:
            await db.write(inserting("a"))
            async with other.transaction():
                await other.execute("SELECT 1 FROM things FOR UPDATE")
                writing = asyncio.ensure_future(
                    db.write(lambda tx: Putting().alone(tx, Put("a", "mine")))
                )
                await soon(WAITS, other)
                closing = asyncio.ensure_future(db.close())
                await asyncio.sleep(0)
                with pytest.raises(Unavailable, match="closed"):
                    await db.write(inserting("b"))
                with pytest.raises(Unavailable, match="closed"):
                    await db.read(inserting("b"))
                with pytest.raises(Unavailable, match="closed"):
                    await db.write_together(Putting(), Put("a", "x"))
            assert await writing == 2
            await closing
        assert await other.fetchval("SELECT value FROM things") == "mine"


async def test_what_was_told_last_is_heard_although_the_teller_closes(
    db: Postgres, url: str
) -> None:
    ear = NoticeRecorder(db)
    async with opened(url) as other:
        await other.write(notifying(Changed("x", 1)))
    await ear.until(Changed("x", 1))


async def test_closing_ends_all_connections(url: str) -> None:
    async with session(url) as raw:
        count = (
            "SELECT count(*) FROM pg_stat_activity "
            "WHERE application_name = 'holdfast' AND datname = current_database()"
        )
        async with opened(url) as db:
            await db.write(inserting("a", "b", "c"))
            await asyncio.gather(*(values(db) for _ in range(3)), put(db, Putting(), Put("a", "x")))
            assert await raw.fetchval(count) >= 4
        await soon(count, raw, 0)


async def test_a_transaction_that_never_ends_does_not_keep_the_database_open(url: str) -> None:
    begun = asyncio.Event()

    async def never(tx: Tx) -> None:
        await tx.fetch("SELECT 1")
        begun.set()
        await asyncio.Event().wait()

    loop = asyncio.get_running_loop()
    async with opened(url) as db:
        writing = asyncio.ensure_future(db.write(never))
        await begun.wait()
        since = loop.time()
    assert OUTCOME_TIMEOUT <= loop.time() - since < OUTCOME_TIMEOUT + 5
    with pytest.raises(OutcomeUnknown):
        await writing


async def test_closing_waits_although_whoever_closes_is_cancelled(db: Postgres, url: str) -> None:
    await db.write(inserting("a"))
    cancelled = asyncio.Event()
    async with session(url) as other, session(url) as watcher:

        async def use() -> int:
            with anyio.CancelScope() as scope:
                async with opened(url) as mine:
                    writing = asyncio.ensure_future(
                        mine.write(lambda tx: Putting().alone(tx, Put("a", "mine")))
                    )
                    await soon(WAITS, watcher)
                    cancelled.set()
                    scope.cancel()
                    await anyio.sleep(1)
            return await writing

        async with other.transaction():
            await other.execute("SELECT 1 FROM things FOR UPDATE")
            using = asyncio.ensure_future(use())
            await cancelled.wait()
            for _ in range(20):
                await asyncio.sleep(0)
            assert not using.done()
        assert await using == 2


# --- A server that is not up yet -----------------------------------------------------------------


async def test_a_server_that_is_not_up_yet_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    with running() as server:
        url = server.url()
        server.stop()
        opening = asyncio.create_task(_open_and_close(url))
        while not caplog.records:  # noqa: ASYNC110 - a log tells nobody
            await asyncio.sleep(0.01)
        assert "waiting up to 30 s for the database: PostgreSQL at" in caplog.text
        server.start()
        await opening
    assert len(caplog.records) == 1, "it is said once"


async def _open_and_close(url: str) -> None:
    async with opened(url, wait=30):
        pass


async def test_a_server_that_does_not_come_up_is_waited_for_no_longer_than_asked() -> None:
    began = asyncio.get_running_loop().time()
    with pytest.raises(CannotOpen, match="cannot be reached"):
        await _open_and_close("postgresql://x@127.0.0.1:1/x")
    assert 20 < asyncio.get_running_loop().time() - began <= 30


async def test_a_url_that_will_never_work_is_not_waited_for(url: str) -> None:
    began = asyncio.get_running_loop().time()
    with pytest.raises(CannotOpen, match="does not have the database"):
        await _open_and_close(url.replace("?", "_missing?"))
    assert asyncio.get_running_loop().time() == began
