"""SQLite as a store: whole transactions, shared commits, and nobody pays for another's mistake."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any, Final

import anyio
import apsw
import pytest
from msgspec import Struct

from holdfast.store.database import (
    SQLITE,
    Changed,
    ChangeNotice,
    Claimable,
    Database,
    Params,
    Row,
    StoreError,
    Tx,
    Unavailable,
    Violation,
)
from holdfast.store.migrate import Migration
from holdfast.store.sqlite.database import Sqlite, open_sqlite
from holdfast.testing import START, Clock

SCHEMA: Final = [
    Migration(
        1,
        "things",
        """
        CREATE TABLE things (
            id     text    NOT NULL PRIMARY KEY,
            n      integer NOT NULL DEFAULT 0 CHECK (n >= 0),
            parent text    REFERENCES things
        );
        CREATE TRIGGER guard BEFORE INSERT ON things WHEN NEW.id = 'stale'
        BEGIN SELECT RAISE(ABORT, 'the epoch is not the chat''s'); END;
        CREATE TRIGGER bomb BEFORE INSERT ON things WHEN NEW.id = 'bomb'
        BEGIN SELECT RAISE(ROLLBACK, 'everything is lost'); END;
        """,
    )
]
KINDS: Final = ("threads", "inline", "memory", "memory inline")
WAIT: Final = 10.0
"""Real seconds after which a thread that should have been let go gives up."""


@asynccontextmanager
async def opened(
    path: Path | str, *, thread: bool = True, clock: Clock | None = None
) -> AsyncIterator[Sqlite]:
    now = (clock or Clock()).now
    async with open_sqlite(path, now=now, thread=thread, migrations=SCHEMA) as db:
        yield db


@pytest.fixture(params=KINDS)
async def db(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Sqlite]:
    """Every kind of it: what a caller sees is the same."""
    path = ":memory:" if "memory" in request.param else tmp_path / "chats.db"
    async with opened(path, thread="inline" not in request.param) as database:
        yield database


@pytest.fixture
async def on_disk(tmp_path: Path) -> AsyncIterator[Sqlite]:
    async with opened(tmp_path / "chats.db") as database:
        yield database


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> list[apsw.Connection]:
    """The connections that are opened from now on. The first is the one that writes."""
    seen: list[apsw.Connection] = []
    monkeypatch.setattr(apsw, "connection_hooks", [seen.append])
    return seen


@pytest.fixture
def commits(connections: list[apsw.Connection], db: Sqlite) -> list[None]:
    """One entry for each commit of the writer."""
    seen: list[None] = []

    def count() -> bool:
        seen.append(None)
        return False

    connections[0].set_commit_hook(count)
    return seen


def insert(id: str, **params: Any) -> Callable[[Tx], Awaitable[str]]:
    async def transaction(tx: Tx) -> str:
        given = {"id": id, "n": 0, "parent": None, **params}
        await tx.execute("INSERT INTO things VALUES (:id, :n, :parent)", given)
        return id

    return transaction


async def ids(tx: Tx) -> list[str]:
    return [id for (id,) in await tx.fetch("SELECT id FROM things ORDER BY rowid")]


async def fetch(db: Database, sql: str, params: Params | None = None) -> Sequence[Row]:
    async def transaction(tx: Tx) -> Sequence[Row]:
        return await tx.fetch(sql, params or {})

    return await db.write(transaction)


class Gate:
    """A transaction that holds the writer's thread up until it is let go."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._main = threading.get_ident()
        self._open = threading.Event()

    async def __call__(self, tx: Tx) -> None:
        if threading.get_ident() != self._main:  # on the loop nobody could let it go
            self._loop.call_soon_threadsafe(self.reached.set)
            assert self._open.wait(WAIT)

    def let_go(self) -> None:
        self._open.set()


async def all_at_once(
    db: Database, *transactions: Callable[[Tx], Awaitable[Any]]
) -> list[Any | BaseException]:
    """The outcomes of transactions that all wait when the writer looks for something to do."""
    gate = Gate()
    everything: list[Callable[[Tx], Awaitable[Any]]] = [gate, *transactions]
    tasks = [asyncio.create_task(db.write(each)) for each in everything]
    await asyncio.sleep(0)
    gate.let_go()
    _, *outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    return outcomes


# --- One transaction ------------------------------------------------------------------------------


async def test_what_is_written_is_read(db: Sqlite) -> None:
    assert await db.write(insert("a")) == "a"
    assert await db.read(ids) == ["a"]


async def test_it_speaks_its_dialect_and_nobody_else_can_write(db: Sqlite) -> None:
    async def dialect(tx: Tx) -> bool:
        return tx.dialect is db.dialect is SQLITE

    assert await db.write(dialect)
    assert await db.read(dialect)
    assert db.exclusive
    database: Database = db
    assert database is db


async def test_what_raises_is_raised_and_changes_nothing(db: Sqlite) -> None:
    async def fail(tx: Tx) -> None:
        await insert("a")(tx)
        raise LookupError("no such chat")

    with pytest.raises(LookupError, match="no such chat"):
        await db.write(fail)
    assert await db.read(ids) == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, asyncio.CancelledError])
async def test_what_is_no_exception_ends_the_transaction_and_not_the_writer(
    db: Sqlite, error: type[BaseException]
) -> None:
    async def fail(tx: Tx) -> None:
        await insert("a")(tx)
        raise error

    with pytest.raises(error):
        await db.write(fail)
    with pytest.raises(error):
        await db.read(fail_to_read(error))
    await db.write(insert("b"))
    assert await db.read(ids) == ["b"]


def fail_to_read(error: type[BaseException]) -> Callable[[Tx], Awaitable[None]]:
    async def fail(tx: Tx) -> None:
        raise error

    return fail


async def test_a_transaction_may_not_wait_for_anything_else(db: Sqlite) -> None:
    cleaned = []

    async def wait(tx: Tx) -> None:
        await insert("a")(tx)
        try:
            await asyncio.sleep(0)
        finally:
            cleaned.append(True)

    with pytest.raises(TypeError, match="waits for something other than the database"):
        await db.write(wait)
    with pytest.raises(TypeError, match="waits for something other than the database"):
        await db.read(lambda tx: asyncio.sleep(0))
    assert cleaned
    await db.write(insert("b"))
    assert await db.read(ids) == ["b"]


async def test_one_that_waits_even_when_it_is_closed_does_no_harm(db: Sqlite) -> None:
    async def stubborn(tx: Tx) -> None:
        try:
            await asyncio.sleep(0)
        finally:
            await asyncio.sleep(0)

    with pytest.raises(TypeError, match="waits for something other than"):
        await db.write(stubborn)
    assert await db.write(insert("a")) == "a"


async def test_a_transaction_that_is_over_can_do_nothing_more(db: Sqlite) -> None:
    async def keep(tx: Tx) -> Tx:
        return tx

    for tx in (await db.write(keep), await db.read(keep)):
        with pytest.raises(StoreError, match="this transaction is over"):
            await tx.execute("DELETE FROM things")


async def test_a_transaction_may_not_end_itself(db: Sqlite) -> None:
    async def end(tx: Tx) -> None:
        await insert("a")(tx)
        await tx.execute("COMMIT")

    with pytest.raises(StoreError, match="must not end itself"):
        await db.write(end)
    assert await db.write(insert("b")) == "b"


async def test_a_guard_and_a_constraint_refuse_in_their_own_words(db: Sqlite) -> None:
    with pytest.raises(Violation, match=r"^the epoch is not the chat's$"):
        await db.write(insert("stale"))
    with pytest.raises(Violation, match="CHECK constraint failed"):
        await db.write(insert("a", n=-1))
    with pytest.raises(Violation, match="FOREIGN KEY"):
        await db.write(insert("a", parent="nobody"))
    assert await db.read(ids) == []


async def test_a_refusal_can_be_caught_and_the_transaction_goes_on(db: Sqlite) -> None:
    async def transaction(tx: Tx) -> None:
        await insert("a")(tx)
        with pytest.raises(Violation):
            await insert("a")(tx)
        await insert("b")(tx)

    await db.write(transaction)
    assert await db.read(ids) == ["a", "b"]


async def test_a_mistake_in_a_statement_is_said(db: Sqlite) -> None:
    with pytest.raises(StoreError, match="no such table: nowhere"):
        await fetch(db, "SELECT * FROM nowhere")
    with pytest.raises(StoreError, match="no such column"):
        await fetch(db, 'SELECT "nothing" FROM things')


# --- Statements -----------------------------------------------------------------------------------


async def test_rows_are_tuples_and_one_is_the_first_or_none(db: Sqlite) -> None:
    async def transaction(tx: Tx) -> None:
        rows = [{"id": id, "n": n} for n, id in enumerate("abc")]
        await tx.execute_many("INSERT INTO things (id, n) VALUES (:id, :n)", rows)
        assert await tx.fetch("SELECT id, n FROM things WHERE n > :n ORDER BY n", {"n": 0}) == [
            ("b", 1),
            ("c", 2),
        ]
        assert await tx.one("SELECT id FROM things ORDER BY id DESC") == ("c",)
        assert await tx.one("SELECT id FROM things WHERE n = 9") is None
        returned = await tx.fetch("UPDATE things SET n = n + 1 RETURNING n")
        assert {n for (n,) in returned} == {1, 2, 3}

    await db.write(transaction)


async def test_a_statement_says_how_many_rows_it_changed(db: Sqlite) -> None:
    async def transaction(tx: Tx) -> list[int]:
        return [
            await tx.execute("INSERT INTO things (id) VALUES ('a'), ('b'), ('c')"),
            await tx.execute("SELECT * FROM things"),
            await tx.execute("UPDATE things SET n = 1 WHERE id <> 'a' RETURNING n"),
            await tx.execute("UPDATE things SET n = 1 WHERE id = 'nobody'"),
            await tx.execute("CREATE TABLE others (id text)"),
            await tx.execute("DELETE FROM things"),
        ]

    assert await db.write(transaction) == [3, 0, 2, 0, 0, 3]


async def test_a_list_is_bound_so_that_one_of_it_can_be_asked_for(db: Sqlite) -> None:
    for id in "abcd":
        await db.write(insert(id))
    sql = f"SELECT id FROM things WHERE {SQLITE.one_of('id', 'wanted')} ORDER BY id"
    assert await fetch(db, sql, {"wanted": ["b", "d", "x"]}) == [("b",), ("d",)]
    assert await fetch(db, sql, {"wanted": ("a",)}) == [("a",)]
    assert await fetch(db, sql, {"wanted": []}) == []


async def test_what_cannot_be_stored_is_refused(db: Sqlite) -> None:
    with pytest.raises(TypeError, match="cannot store a object"):
        await fetch(db, "SELECT :value", {"value": object()})
    with pytest.raises(StoreError, match="no value was given for :value"):
        await fetch(db, "SELECT :value")


async def test_now_is_the_clocks_and_stays_the_same_in_a_transaction(tmp_path: Path) -> None:
    clock = Clock()

    async def twice(tx: Tx) -> list[Any]:
        first = await tx.one(f"SELECT {tx.dialect.now}")
        clock.advance(1)
        second = await tx.one("SELECT :now, :other", {"other": 1})
        assert first is not None
        assert second is not None
        return [first[0], second[0]]

    for thread in (True, False):
        async with opened(tmp_path / f"{thread}.db", thread=thread, clock=clock) as db:
            await anyio.sleep(5)
            then = clock.now()
            assert await db.write(twice) == [then, then]
            assert await db.read(twice) == [then + 1_000_000] * 2
    assert clock.now() == START + 14_000_000


# --- Together -------------------------------------------------------------------------------------


async def test_transactions_that_wait_together_share_a_commit(
    connections: list[apsw.Connection], db: Sqlite, commits: list[None]
) -> None:
    wanted = [f"{number:02}" for number in range(49)]
    assert await all_at_once(db, *map(insert, wanted)) == wanted
    assert len(commits) <= 2  # the gate's own, when there is a thread
    assert await db.read(ids) == wanted


async def test_no_more_than_fifty_share_one(
    connections: list[apsw.Connection], db: Sqlite, commits: list[None]
) -> None:
    wanted = [f"{number:03}" for number in range(120)]
    assert await all_at_once(db, *map(insert, wanted)) == wanted
    assert 3 <= len(commits) <= 4


async def test_one_that_fails_touches_no_other(db: Sqlite) -> None:
    async def fail_late(tx: Tx) -> None:
        await insert("x")(tx)
        tx.notify(Claimable("x"))
        raise LookupError("changed my mind")

    heard: list[ChangeNotice] = []
    db.listen(heard.append)
    first, stale, failed, double, second = await all_at_once(
        db, insert("a"), insert("stale"), fail_late, insert("a"), insert("b")
    )
    assert (first, second) == ("a", "b")
    assert isinstance(stale, Violation)
    assert isinstance(failed, LookupError)
    assert isinstance(double, Violation)
    assert await db.read(ids) == ["a", "b"]
    assert heard == []


async def test_one_that_waits_for_something_else_touches_no_other(db: Sqlite) -> None:
    async def wait(tx: Tx) -> None:
        await insert("x")(tx)
        await asyncio.sleep(0)

    first, waited, second = await all_at_once(db, insert("a"), wait, insert("b"))
    assert (first, second) == ("a", "b")
    assert isinstance(waited, TypeError)
    assert await db.read(ids) == ["a", "b"]


async def test_one_that_takes_the_whole_transaction_with_it_costs_the_others_nothing(
    db: Sqlite,
) -> None:
    recording: list[ChangeNotice] = []
    db.listen(recording.append)

    async def tell(tx: Tx) -> None:
        await insert("a")(tx)
        tx.notify(Changed("a", 1))

    none, bomb, second = await all_at_once(db, tell, insert("bomb"), insert("b"))
    assert (none, second) == (None, "b")
    assert isinstance(bomb, Violation)
    assert str(bomb) == "everything is lost"
    assert await db.read(ids) == ["a", "b"]
    assert recording == [Changed("a", 1)]


async def test_whoever_goes_on_when_everything_is_lost_writes_nothing(db: Sqlite) -> None:
    async def go_on(tx: Tx) -> None:
        await insert("x")(tx)
        with pytest.raises(Violation):
            await insert("bomb")(tx)
        with pytest.raises(StoreError, match="is over"):
            await insert("y")(tx)

    with pytest.raises(Violation, match="everything is lost"):
        await db.write(go_on)
    first, lost, second = await all_at_once(db, insert("a"), go_on, insert("b"))
    assert (first, second) == ("a", "b")
    assert isinstance(lost, Violation)
    assert await db.read(ids) == ["a", "b"]


async def test_one_that_ends_the_transaction_costs_the_others_nothing(db: Sqlite) -> None:
    async def end(tx: Tx) -> None:
        await tx.execute("ROLLBACK")

    first, ended, second = await all_at_once(db, insert("a"), end, insert("b"))
    assert (first, second) == ("a", "b")
    assert isinstance(ended, StoreError)
    assert await db.read(ids) == ["a", "b"]


async def test_when_a_shared_commit_fails_each_is_tried_again_alone(
    connections: list[apsw.Connection], db: Sqlite
) -> None:
    ran: list[str] = []
    # A hook that says yes turns a COMMIT into an error. This one: the first that has all of them.
    connections[0].set_commit_hook(lambda: ran == ["a", "b", "c"])
    heard: list[ChangeNotice] = []
    db.listen(heard.append)

    def recording(id: str) -> Callable[[Tx], Awaitable[str]]:
        async def transaction(tx: Tx) -> str:
            ran.append(id)
            tx.notify(Claimable(id))
            return await insert(id)(tx)

        return transaction

    assert await all_at_once(db, *map(recording, "abc")) == ["a", "b", "c"]
    assert ran == ["a", "b", "c"] * 2
    assert await db.read(ids) == ["a", "b", "c"]
    assert heard == [Claimable("a"), Claimable("b"), Claimable("c")]


async def test_one_that_was_refused_because_of_another_is_done_when_that_one_is_not(
    connections: list[apsw.Connection], db: Sqlite
) -> None:
    ran: list[str] = []
    connections[0].set_commit_hook(lambda: ran[-1] == "first" or len(ran) == 4)
    heard: list[ChangeNotice] = []
    db.listen(heard.append)

    def recording(name: str) -> Callable[[Tx], Awaitable[str]]:
        async def transaction(tx: Tx) -> str:
            ran.append(name)
            tx.notify(Claimable(name))
            await insert("a")(tx)
            return name

        return transaction

    first, second = await all_at_once(db, recording("first"), recording("second"))
    # As one, with a savepoint each (the commit of that fails), and each alone.
    assert ran == ["first", "second"] * 3
    assert isinstance(first, StoreError)
    assert second == "second"
    assert await db.read(ids) == ["a"]
    assert heard == [Claimable("second")]


async def test_when_a_commit_fails_alone_its_owner_is_told(
    connections: list[apsw.Connection], db: Sqlite
) -> None:
    heard: list[ChangeNotice] = []
    db.listen(heard.append)

    async def transaction(tx: Tx) -> None:
        await insert("a")(tx)
        tx.notify(Claimable("a"))

    connections[0].set_commit_hook(lambda: True)
    with pytest.raises(StoreError):
        await db.write(transaction)
    connections[0].set_commit_hook(None)
    assert heard == []
    assert await db.write(insert("b")) == "b"
    assert await db.read(ids) == ["b"]


class Thing(Struct, frozen=True):
    """What a bulk may put into the table."""

    id: str
    chat: str | None = None


class Inserting:
    """A bulk that remembers who came together. One that is `left_out` takes no part in that."""

    def __init__(self, left_out: str | None = None) -> None:
        self.together_were: list[str] = []
        self.alone_were: list[str] = []
        self._left_out = left_out

    async def alone(self, tx: Tx, one: Thing) -> str:
        self.alone_were.append(one.id)
        tx.notify(Claimable(one.id))
        return await insert(one.id)(tx)

    async def together(self, tx: Tx, many: Sequence[Thing]) -> Sequence[str | None]:
        self.together_were.append("".join(one.id for one in many))
        for one in many:
            tx.notify(Claimable(one.id))
        made = [await insert(one.id)(tx) for one in many if one.id != self._left_out]
        return [one.id if one.id in made else None for one in many]


async def at_once(db: Sqlite, *writes: Coroutine[Any, Any, Any]) -> list[Any]:
    """Outcomes of what waits while something else is written."""
    gate = Gate()
    first = asyncio.create_task(db.write(gate))
    rest = [asyncio.create_task(write) for write in writes]
    await asyncio.sleep(0)
    gate.let_go()
    await first
    return await asyncio.gather(*rest, return_exceptions=True)


async def test_those_of_one_bulk_run_in_its_form_for_many_and_share_a_commit(
    connections: list[apsw.Connection], db: Sqlite, commits: list[None]
) -> None:
    bulk, heard = Inserting(), list[ChangeNotice]()
    db.listen(heard.append)
    made = await at_once(db, *(db.write_together(bulk, Thing(id)) for id in "abc"))
    assert made == ["a", "b", "c"]
    assert (bulk.together_were, bulk.alone_were) == (["abc"], [])
    assert heard == [Claimable("a"), Claimable("b"), Claimable("c")]
    assert len(commits) <= 2


async def test_what_comes_between_those_of_a_bulk_keeps_its_place(db: Sqlite) -> None:
    bulk, other = Inserting(), Inserting()
    made = await at_once(
        db,
        db.write_together(bulk, Thing("a")),
        db.write_together(bulk, Thing("b")),
        db.write(insert("c")),
        db.write_together(other, Thing("d")),
        db.write_together(bulk, Thing("e")),
        db.write_together(bulk, Thing("f")),
    )
    assert made == list("abcdef")
    assert (bulk.together_were, other.together_were) == (["ab", "ef"], [])
    assert other.alone_were == ["d"]
    assert await db.read(ids) == list("abcdef")


async def test_two_of_one_chat_never_run_in_the_form_for_many(db: Sqlite) -> None:
    bulk = Inserting()
    rows = Thing("a", "x"), Thing("b", "y"), Thing("c", "x"), Thing("d", "y"), Thing("e", "z")
    assert await at_once(db, *(db.write_together(bulk, row) for row in rows)) == list("abcde")
    assert bulk.together_were == ["ab", "cde"]


async def test_one_of_a_bulk_that_is_refused_touches_no_other(db: Sqlite) -> None:
    await db.write(insert("b"))
    bulk = Inserting()
    a, b, c = await at_once(db, *(db.write_together(bulk, Thing(id)) for id in "abc"))
    assert (a, c) == ("a", "c")
    assert isinstance(b, Violation)
    assert await db.read(ids) == ["b", "a", "c"]


async def test_one_of_a_bulk_that_could_not_take_part_runs_alone(db: Sqlite) -> None:
    bulk, heard = Inserting(left_out="b"), list[ChangeNotice]()
    db.listen(heard.append)
    assert await at_once(db, *(db.write_together(bulk, Thing(id)) for id in "abc")) == list("abc")
    assert bulk.alone_were == ["a", "b", "c"]
    assert heard == [Claimable("a"), Claimable("b"), Claimable("c")]


async def test_a_thousand_writes_at_once_are_all_there_in_their_order(db: Sqlite) -> None:
    wanted = [f"{number:04}" for number in range(1000)]
    written = await asyncio.gather(*(db.write(insert(id)) for id in wanted))
    assert written == wanted
    assert await db.read(ids) == wanted


# --- Notices --------------------------------------------------------------------------------------


async def test_a_notice_is_told_after_the_commit_on_the_loops_thread(on_disk: Sqlite) -> None:
    heard: list[tuple[ChangeNotice, int, int]] = []

    def hear(notice: ChangeNotice) -> None:
        count = outside.execute("SELECT count(*) FROM things").get
        heard.append((notice, count, threading.get_ident()))

    async def transaction(tx: Tx) -> None:
        tx.notify(Changed("a", 1))
        tx.notify(Claimable("a"))
        await insert("a")(tx)

    [(_, _, path)] = await fetch(on_disk, "PRAGMA database_list")
    with closing(apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)) as outside:
        end = on_disk.listen(hear)
        await on_disk.write(transaction)
        end()
        await on_disk.write(insert("b"))
    me = threading.get_ident()
    assert heard == [(Changed("a", 1), 1, me), (Claimable("a"), 1, me)]


async def test_a_listener_that_fails_costs_the_writer_nothing(
    db: Sqlite, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(notice: ChangeNotice) -> None:
        raise LookupError("who?")

    async def transaction(tx: Tx) -> str:
        tx.notify(Claimable("a"))
        return "written"

    db.listen(fail)
    assert await db.write(transaction) == "written"
    assert "LookupError: who?" in caplog.text


# --- Reading --------------------------------------------------------------------------------------


async def test_a_read_can_neither_write_nor_tell(db: Sqlite) -> None:
    async def tell(tx: Tx) -> None:
        tx.notify(Claimable("a"))

    with pytest.raises(StoreError, match="a read must not write"):
        await db.read(insert("a"))
    with pytest.raises(StoreError, match="cannot send notices"):
        await db.read(tell)
    await db.write(insert("b"))
    assert await db.read(ids) == ["b"]


async def test_a_read_does_not_wait_for_a_write_and_sees_only_what_is_committed(
    on_disk: Sqlite,
) -> None:
    gate = Gate()

    async def slow(tx: Tx) -> None:
        await insert("b")(tx)
        await gate(tx)

    await on_disk.write(insert("a"))
    writing = asyncio.create_task(on_disk.write(slow))
    await gate.reached.wait()
    assert await on_disk.read(ids) == ["a"]
    gate.let_go()
    await writing
    assert await on_disk.read(ids) == ["a", "b"]


async def test_a_read_sees_one_moment_whatever_is_written_meanwhile(on_disk: Sqlite) -> None:
    gate = Gate()

    async def twice(tx: Tx) -> tuple[list[str], list[str]]:
        before = await ids(tx)
        await gate(tx)
        return before, await ids(tx)

    await on_disk.write(insert("a"))
    reading = asyncio.create_task(on_disk.read(twice))
    await gate.reached.wait()
    await on_disk.write(insert("b"))
    gate.let_go()
    assert await reading == (["a"], ["a"])
    assert await on_disk.read(ids) == ["a", "b"]


async def test_two_can_read_at_once(on_disk: Sqlite) -> None:
    gate = Gate()
    reading = asyncio.create_task(on_disk.read(gate))
    await gate.reached.wait()
    assert await on_disk.read(ids) == []
    gate.let_go()
    await reading


async def test_what_is_short_runs_on_the_loop_and_the_rest_beside_it(on_disk: Sqlite) -> None:
    async def where(tx: Tx) -> int:
        return threading.get_ident()

    here = threading.get_ident()
    for ask in (on_disk.write, on_disk.read):
        assert await ask(where, short=True) == here
        assert await ask(where) != here


async def test_a_short_read_waits_for_no_other_and_sees_what_was_committed(
    on_disk: Sqlite,
) -> None:
    gates = [Gate(), Gate()]
    reading = [asyncio.create_task(on_disk.read(gate)) for gate in gates]
    for gate in gates:
        await gate.reached.wait()
    await on_disk.write(insert("a"), short=True)
    assert await on_disk.read(ids, short=True) == ["a"]
    for gate in gates:
        gate.let_go()
    await asyncio.gather(*reading)


async def test_a_cancelled_read_is_over_at_once_and_not_begun_when_it_still_waits(
    on_disk: Sqlite,
) -> None:
    gates = [Gate(), Gate()]
    begun = []

    async def begin(tx: Tx) -> None:
        begun.append(True)

    readers = [asyncio.create_task(on_disk.read(gate)) for gate in gates]
    for gate in gates:
        await gate.reached.wait()
    waiting = asyncio.create_task(on_disk.read(begin))
    await asyncio.sleep(0)
    for task in (readers[0], waiting):
        task.cancel()
    await asyncio.wait([readers[0], waiting])
    assert not readers[1].done()
    for gate in gates:
        gate.let_go()
    await readers[1]
    assert await on_disk.read(ids) == []
    assert not begun


# --- Cancelling -----------------------------------------------------------------------------------


async def test_a_cancelled_write_is_committed_all_the_same(db: Sqlite) -> None:
    with anyio.CancelScope() as scope:
        scope.cancel()
        await db.write(insert("a"))
    assert scope.cancelled_caught
    task = asyncio.create_task(db.write(insert("b")))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert await db.read(ids) == ["a", "b"]


async def test_a_cancelled_write_waits_for_its_outcome(on_disk: Sqlite) -> None:
    gate = Gate()

    async def slow(tx: Tx) -> None:
        await gate(tx)
        await insert("a")(tx)

    task = asyncio.create_task(on_disk.write(slow))
    await gate.reached.wait()
    task.cancel()
    for _ in range(10):
        await asyncio.sleep(0)
    assert not task.done()
    gate.let_go()
    await asyncio.wait([task])
    assert task.cancelled()
    assert await on_disk.read(ids) == ["a"]


@pytest.mark.parametrize("thread", [True, False])
async def test_time_is_held_from_the_hand_over_to_the_outcome(tmp_path: Path, thread: bool) -> None:
    loop = asyncio.get_running_loop()

    async def read(tx: Tx) -> None:
        raise LookupError

    async with open_sqlite(
        tmp_path / "chats.db", now=Clock().now, thread=thread, migrations=SCHEMA
    ) as db:
        for transact in (db.write, db.read):
            with pytest.raises(LookupError):
                await transact(read)
    assert loop.time() == 0


# --- Trouble --------------------------------------------------------------------------------------


async def test_another_program_that_writes_is_reported_and_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "chats.db"
    async with opened(path) as db:
        with closing(apsw.Connection(str(path))) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(Unavailable, match=r"nothing was changed in .*/chats\.db: another"):
                await db.write(insert("a"))
            assert await db.read(ids) == []
            other.execute("ROLLBACK")
        await db.write(insert("b"))
        assert await db.read(ids) == ["b"]


@pytest.mark.parametrize("kind", ["threads", "inline"])
async def test_a_full_disk_is_reported_and_nothing_is_lost(
    connections: list[apsw.Connection], tmp_path: Path, kind: str
) -> None:
    attempts = 0

    async def large(tx: Tx) -> None:
        nonlocal attempts
        attempts += 1
        await insert("x" * 1_000_000)(tx)

    async def ignored(tx: Tx) -> None:
        for _ in range(2):
            with pytest.raises(StoreError):
                await insert("y" * 1_000_000)(tx)

    async with opened(tmp_path / "chats.db", thread=kind == "threads") as db:
        await db.write(insert("a"))
        pages = connections[0].pragma("page_count")
        connections[0].pragma("max_page_count", pages + 10)
        for too_much in (large, ignored):
            with pytest.raises(Unavailable, match="the disk is full, free some space"):
                await db.write(too_much)
        attempts = 0
        for too_much, id in ((large, "b"), (ignored, "c")):
            *fine, failed = await all_at_once(db, insert(id), insert(id * 2), too_much)
            assert fine == [id, id * 2]
            assert isinstance(failed, Unavailable)
        assert attempts == 3  # the error is nobody's until it comes when one is alone
        assert await db.read(ids) == ["a", "b", "bb", "c", "cc"]
        connections[0].pragma("max_page_count", 10_000)
        await db.write(large)
        assert len(await db.read(ids)) == 6


# --- The end --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
async def test_closing_finishes_what_was_begun_and_refuses_what_comes_after(
    tmp_path: Path, kind: str
) -> None:
    path = ":memory:" if "memory" in kind else tmp_path / "chats.db"
    threads = set(threading.enumerate())
    async with opened(path, thread="inline" not in kind) as db:
        writes = [asyncio.create_task(db.write(insert(f"{number:03}"))) for number in range(200)]
        reads = [asyncio.create_task(db.read(ids)) for _ in range(20)]
        await asyncio.sleep(0)
    assert await asyncio.gather(*writes) == [f"{number:03}" for number in range(200)]
    await asyncio.gather(*reads)
    assert set(threading.enumerate()) == threads
    with pytest.raises(Unavailable, match=r"^the database is closed: use it inside"):
        await db.write(insert("late"))
    with pytest.raises(Unavailable, match=r"^the database is closed: use it inside"):
        await db.read(ids)
    if kind == "threads":
        assert not (tmp_path / "chats.db-wal").exists()
        async with opened(path) as again:
            assert len(await again.read(ids)) == 200


async def test_closing_goes_to_its_end_when_it_is_cancelled(tmp_path: Path) -> None:
    path = tmp_path / "chats.db"
    with anyio.CancelScope() as scope:
        async with opened(path) as db:
            await db.write(insert("a"))
            scope.cancel()
    async with opened(path) as again:
        assert await again.read(ids) == ["a"]


async def test_what_fails_inside_the_block_does_not_keep_the_file(tmp_path: Path) -> None:
    path = tmp_path / "chats.db"
    with pytest.raises(LookupError):
        async with opened(path):
            raise LookupError
    async with opened(path):
        pass


async def test_without_threads_there_are_none(tmp_path: Path) -> None:
    before = threading.active_count()
    async with opened(tmp_path / "chats.db", thread=False) as db:
        await db.write(insert("a"))
        assert await db.read(ids) == ["a"]
        assert threading.active_count() == before


CHILD: Final = """
import asyncio, sys, threading
from holdfast.kernel.ports import wall_clock
from holdfast.store.migrate import Migration
from holdfast.store.sqlite.database import open_sqlite

SCHEMA = [Migration(1, "rows", "CREATE TABLE rows (n integer PRIMARY KEY, text text NOT NULL)")]

def insert(n):
    async def transaction(tx):
        await tx.execute("INSERT INTO rows VALUES (:n, :text)", {"n": n, "text": "x" * 500})
    return transaction

"""
KILLED: Final = """
async def main():
    async with open_sqlite(sys.argv[1], now=wall_clock, migrations=SCHEMA) as db:
        async def writer(first):
            for n in range(first, 1_000_000, 10):
                await db.write(insert(n))
                print(n, flush=True)
        await asyncio.gather(*map(writer, range(10)))
asyncio.run(main())
"""
ABANDONED: Final = """
go, written = threading.Event(), threading.Event()

async def slow(tx):
    assert go.wait(10)
    await insert(1)(tx)

async def leave(opening):
    db = await opening.__aenter__()
    asyncio.get_running_loop().call_soon(asyncio.get_running_loop().stop)
    await db.write(slow)

opening = open_sqlite(sys.argv[1], now=wall_clock, migrations=SCHEMA)
loop = asyncio.new_event_loop()
task = loop.create_task(leave(opening))
loop.run_forever()
while not any(thread.name == "holdfast-store" for thread in threading.enumerate()):
    loop.run_until_complete(asyncio.sleep(0))
loop.close()
go.set()
import apsw
other = apsw.Connection(sys.argv[1])
while not other.execute("SELECT count(*) FROM rows").get:
    pass
print("written", flush=True)
"""


def rows(path: Path) -> list[int]:
    with closing(apsw.Connection(str(path))) as connection:
        return [n for (n,) in connection.execute("SELECT n FROM rows")]


def test_what_was_acknowledged_survives_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "chats.db"
    with subprocess.Popen(
        [sys.executable, "-c", CHILD + KILLED, path], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        acknowledged = [int(child.stdout.readline()) for _ in range(300)]
        child.kill()
        acknowledged += [int(line) for line in child.stdout.read().split("\n")[:-1]]
    assert set(acknowledged) <= set(rows(path))


def test_a_loop_that_ends_early_costs_neither_the_commit_nor_the_end_of_the_process(
    tmp_path: Path,
) -> None:
    path = tmp_path / "chats.db"
    done = subprocess.run(
        [sys.executable, "-c", CHILD + ABANDONED, path],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert "written" in done.stdout, done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode == 0
    assert rows(path) == [1]
