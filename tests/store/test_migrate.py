"""A database is brought to the schema of this version, once, or refused by name."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, closing
from pathlib import Path
from typing import Final, TypeVar

import apsw
import pytest

from holdfast.store.database import POSTGRES, SQLITE, CannotOpen, Dialect, StoreError, Tx
from holdfast.store.migrate import Migration, SchemaTx, check, migrate, migrations
from holdfast.store.sqlite.database import Sqlite, open_sqlite
from holdfast.testing import START, Clock

T = TypeVar("T")

CHATS: Final = Migration(1, "chats", "CREATE TABLE chats (id text); CREATE TABLE files (id text);")
TITLES: Final = Migration(
    2,
    "titles",
    """
    ALTER TABLE chats ADD COLUMN title text;
    -- a semicolon; and a trigger, whose body has some more
    CREATE TRIGGER titled AFTER INSERT ON chats WHEN NEW.title IS NULL
    BEGIN
        UPDATE chats SET title = 'a ; b' WHERE id = NEW.id;
        DELETE FROM files;
    END;
    """,
)
LABELS: Final = Migration(3, "labels", "CREATE TABLE labels (id text)")
BROKEN: Final = Migration(2, "broken", "CREATE TABLE half (id text); CREATE TABLE half (id text);")


def database(
    path: Path, *known: Migration, migrate: bool = True
) -> AbstractAsyncContextManager[Sqlite]:
    return open_sqlite(path, now=Clock().now, thread=False, migrate=migrate, migrations=known)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "chats.db"


def tables(path: Path) -> set[str]:
    with closing(apsw.Connection(str(path))) as connection:
        return {name for (name,) in connection.execute("SELECT name FROM sqlite_schema")}


def applied(path: Path) -> list[tuple[int, str, int]]:
    with closing(apsw.Connection(str(path))) as connection:
        return list(connection.execute("SELECT * FROM migrations ORDER BY number"))


async def refused(path: Path, *known: Migration, migrate: bool = True) -> str:
    before = tables(path)
    with pytest.raises(CannotOpen) as refusal:
        async with database(path, *known, migrate=migrate):
            pass
    assert tables(path) == before
    return str(refusal.value)


async def test_a_new_database_gets_all_of_them_in_order(path: Path) -> None:
    async with database(path, CHATS, TITLES) as db:

        async def insert(tx: Tx) -> Sequence[object]:
            await tx.execute("INSERT INTO chats (id) VALUES ('c1')")
            return await tx.fetch("SELECT id, title FROM chats")

        assert await db.write(insert) == [("c1", "a ; b")]
    assert applied(path) == [(1, "chats", START), (2, "titles", START)]


async def test_each_is_applied_once_and_told_by_its_name(path: Path) -> None:
    async with database(path, CHATS) as db:
        assert await migrate(db, SQLITE, [CHATS, TITLES, LABELS]) == ["0002_titles", "0003_labels"]
        assert await migrate(db, SQLITE, [CHATS, TITLES, LABELS]) == []
    async with database(path, CHATS, TITLES, LABELS):
        pass


async def test_one_that_fails_leaves_the_database_as_it_was_before_it(path: Path) -> None:
    with pytest.raises(StoreError, match="table half already exists"):
        async with database(path, CHATS, BROKEN):
            pass
    assert tables(path) == {"migrations", "chats", "files"}
    assert [name for _, name, _ in applied(path)] == ["chats"]
    async with database(path, CHATS, TITLES):
        pass


async def test_one_that_commits_by_itself_is_refused(path: Path) -> None:
    with pytest.raises(StoreError, match="must not end itself"):
        async with database(path, Migration(1, "sly", "CREATE TABLE sly (a); COMMIT;")):
            pass
    assert applied(path) == []


async def test_a_newer_database_is_refused_by_name(path: Path) -> None:
    async with database(path, CHATS, TITLES):
        pass
    for bring_up in (True, False):
        message = await refused(path, CHATS, migrate=bring_up)
        assert "newer version" in message
        assert "0002_titles: upgrade holdfast" in message


async def test_a_gap_is_refused(path: Path) -> None:
    async with database(path, CHATS, TITLES, LABELS):
        pass
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("DELETE FROM migrations WHERE number = 2")
    message = await refused(path, CHATS, TITLES, LABELS)
    assert "has migration 0003_labels but not 0002_titles" in message


async def test_another_name_is_refused(path: Path) -> None:
    async with database(path, CHATS):
        pass
    message = await refused(path, Migration(1, "talks", "CREATE TABLE talks (id text)"))
    assert "has migration 0001_chats where this version has 0001_talks" in message


async def test_a_table_of_that_name_that_is_somebody_elses_is_refused(path: Path) -> None:
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("CREATE TABLE migrations (migration text, batch integer)")
    with pytest.raises(StoreError, match="no such column: number"):
        async with database(path, CHATS):
            pass
    assert tables(path) == {"migrations"}


async def test_unasked_a_database_that_lacks_some_is_refused_and_not_touched(path: Path) -> None:
    message = await refused(path, CHATS, TITLES, migrate=False)
    lacks = f"{path}: the database lacks"
    assert message == f"{lacks} 0001_chats, 0002_titles: run `holdfast migrate`"
    async with database(path, CHATS):
        pass
    message = await refused(path, CHATS, TITLES, migrate=False)
    assert message == f"{lacks} 0002_titles: run `holdfast migrate`"
    async with database(path, CHATS, migrate=False) as db:
        await check(db, SQLITE, [CHATS])


async def test_another_process_may_go_on_in_between(path: Path) -> None:
    """As on PostgreSQL, where two may begin at once."""

    class Interrupted:
        def __init__(self, db: Sqlite) -> None:
            self._db = db
            self._turns = 0

        async def change_schema(self, transaction: Callable[[SchemaTx], Awaitable[T]]) -> T:
            self._turns += 1
            if self._turns == 2:
                assert await migrate(self._db, SQLITE, [CHATS, TITLES]) == ["0002_titles"]
            return await self._db.change_schema(transaction)

    async with database(path) as db:
        known = [CHATS, TITLES, LABELS]
        assert await migrate(Interrupted(db), SQLITE, known) == ["0001_chats", "0003_labels"]


def test_files_are_read_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    (tmp_path / "0002_titles.sql").write_text("SELECT 2")
    (tmp_path / "0001_chats.sql").write_text("SELECT 'ü'", "utf-8")
    (tmp_path / "README.md").write_text("about them")
    found = migrations(SQLITE, tmp_path)
    assert found == (Migration(1, "chats", "SELECT 'ü'"), Migration(2, "titles", "SELECT 2"))


@pytest.mark.parametrize(
    ("names", "why"),
    [
        (["0001_chats.sql", "0003_labels.sql"], "without a gap, not: 0001_chats, 0003_labels"),
        (["0001_chats.sql", "0001_labels.sql"], "without a gap"),
        (["0002_chats.sql"], "without a gap"),
        (["1_chats.sql"], "named like 0001_chats.sql, not 1_chats.sql"),
        (["0001 chats.sql"], "named like 0001_chats.sql"),
    ],
)
def test_files_with_other_names_are_refused(tmp_path: Path, names: list[str], why: str) -> None:
    for name in names:
        (tmp_path / name).touch()
    with pytest.raises(ValueError, match=why):
        migrations(SQLITE, tmp_path)


@pytest.mark.parametrize("dialect", [SQLITE, POSTGRES], ids=lambda dialect: dialect.name)
def test_every_dialect_has_the_same_migrations(dialect: Dialect) -> None:
    names = [str(each) for each in migrations(dialect)]
    assert names == [str(each) for each in migrations(SQLITE)]
    assert names


async def test_those_of_this_version_are_applied_by_default(path: Path) -> None:
    async with open_sqlite(path, now=Clock().now, thread=False):
        pass
    assert [(number, name) for number, name, _ in applied(path)] == [
        (each.number, each.name) for each in migrations(SQLITE)
    ]
    async with open_sqlite(path, now=Clock().now, thread=False, migrate=False):
        pass


def test_a_refused_database_is_given_back(path: Path) -> None:
    async def attempt() -> None:
        async with open_sqlite(path, now=Clock().now, migrations=[BROKEN]):
            pass

    before = set(threading.enumerate())
    for _ in range(2):
        with pytest.raises(StoreError, match="already exists"):
            asyncio.run(attempt())
    assert set(threading.enumerate()) == before


async def test_messages_survive_a_new_kind_of_message(path: Path) -> None:
    every = migrations(SQLITE)
    before = [each for each in every if each.number < INSTRUCTIONS]
    async with database(path, *before) as db:
        await db.write(_add_messages)
    async with database(path, *every) as db:
        rows = "SELECT number, kind FROM messages ORDER BY number"
        assert await db.read(lambda tx: tx.fetch(rows)) == [(1, "prompt"), (2, "note")]
        await db.write(lambda tx: tx.execute(_message(3, "instructions")))
        for statement in (_message(4, "gossip"), "UPDATE messages SET kind = 'marker'"):
            with pytest.raises(StoreError):
                await db.write(lambda tx, sql=statement: tx.execute(sql))  # type: ignore[misc]
        await db.write(lambda tx: tx.execute("UPDATE messages SET superseded_at = 1"))
        unsearched = await db.read(lambda tx: tx.fetch("SELECT number FROM unsearched"))
        assert unsearched == [(1,)]


INSTRUCTIONS: Final = 8
"""Number of the migration that replaces the column `kind`."""


def _message(number: int, kind: str) -> str:
    return f"""
        INSERT INTO messages (chat_id, number, revision, role, kind, visibility, body, created_at)
        VALUES ('c1', {number}, 1, 'user', '{kind}', 'both', '{{}}', 1)
        """


async def _add_messages(tx: Tx) -> None:
    await tx.execute(
        "INSERT INTO chats (id, owner, agent, root_id, status, history_version, queue_version,"
        " created_at, updated_at) VALUES ('c1', '', 'agent', 'c1', 'idle', 1, 1, 1, 1)"
    )
    for number, kind in ((1, "prompt"), (2, "note")):
        await tx.execute(_message(number, kind))
    await tx.execute(
        "INSERT INTO tool_calls (chat_id, call_id, number, tool, effect, state, outcome)"
        " VALUES ('c1', 'a', 1, 'look', 'pure', 'finished', 'ok')"
    )
