"""A database is opened by its URL; one that cannot be right is refused without repeating it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest

from holdfast.kernel.errors import ConfigError
from holdfast.store.database import CannotOpen, Database, Row, Tx, Unavailable
from holdfast.store.url import DatabaseTarget, open_database, parse
from holdfast.testing import Clock

Open = Callable[..., AbstractAsyncContextManager[Any]]


@pytest.fixture
def opened(clock: Clock) -> Open:
    return partial(open_database, now=clock.now)


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Of a database of each kind in turn. A file is not there yet."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/chats.db"
    found: str = request.getfixturevalue("postgres_url")
    return found


async def beat(tx: Tx) -> None:
    await tx.execute(
        "INSERT INTO workers (id, agents, started_at, beat_at) VALUES ('w', '[]', 1, 2)"
    )


async def workers(db: Database) -> list[Row]:
    return [tuple(row) for row in await db.read(lambda tx: tx.fetch("SELECT id FROM workers"))]


def files(directory: Path) -> list[str]:
    return sorted(each.name for each in directory.iterdir())


# --- What a URL names ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("sqlite:///chats.db", DatabaseTarget("sqlite", "chats.db")),
        ("sqlite:///data/chats.db", DatabaseTarget("sqlite", "data/chats.db")),
        ("sqlite:////var/lib/chats.db", DatabaseTarget("sqlite", "/var/lib/chats.db")),
        (" SQLite:///chats.db\n", DatabaseTarget("sqlite", "chats.db")),
        ("sqlite:///my%20chats%3F.db", DatabaseTarget("sqlite", "my chats?.db")),
        ("sqlite://", DatabaseTarget("sqlite", ":memory:")),
        ("sqlite:///:memory:", DatabaseTarget("sqlite", ":memory:")),
        ("postgresql://a:b@h:1/n", DatabaseTarget("postgres", "postgresql://a:b@h:1/n")),
        (
            "postgres://h/n?sslmode=disable",
            DatabaseTarget("postgres", "postgres://h/n?sslmode=disable"),
        ),
    ],
)
def test_a_url_names_a_file_a_server_or_memory(url: str, place: DatabaseTarget) -> None:
    assert parse(url) == place


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("", "this is not a database URL: write sqlite:///chats.db"),
        ("chats.db", "this is not a database URL: write sqlite:///chats.db"),
        ("/var/lib/chats.db", "sqlite:////var/lib/chats.db for an absolute path"),
        ("sqlite:chats.db", "this is not a database URL"),
        ("sqlite:/chats.db", "this is not a database URL"),
        ("sqlite://chats.db", "sqlite: needs three slashes"),
        ("sqlite:///", "the URL does not name a valid file"),
        ("sqlite:///%00", "the URL does not name a valid file"),
        ("sqlite:///chats.db?mode=ro", "has no options: remove what follows ?"),
        ("sqlite:///chats.db#1", "has no options"),
        ("sqlite+aiosqlite:///chats.db", "write sqlite:// without +…"),
        ("postgresql+asyncpg://ann:s3cret@h/n", "write postgresql:// without +…"),
        ("mysql://ann:s3cret@h/n", "unknown kind of database mysql: write"),
        ("postgresql:/ann:s3cret@h/n", "this is not a database URL"),
        ("ann:s3cret@h/n", "this is not a database URL"),
        ("ann:s3cret@://h/n", "this is not a database URL"),
        (
            Path("chats.db"),
            "text, not a PosixPath: write sqlite:///chats.db for a file in this directory",
        ),
        (None, "text, not a NoneType: write sqlite:///chats.db"),
    ],
)
def test_what_is_no_url_is_refused_with_what_to_write_and_not_repeated(url: Any, says: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        parse(url)
    assert says in str(refusal.value)
    assert "s3cret" not in str(refusal.value)


# --- Opening ------------------------------------------------------------------------------------


async def test_a_database_is_made_migrated_and_kept(url: str, opened: Open) -> None:
    async with opened(url) as db:
        await db.write(beat)
    async with opened(url, migrate=False) as db:
        assert await workers(db) == [("w",)]


async def test_a_path_is_from_here_unless_it_begins_at_the_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: Open
) -> None:
    monkeypatch.chdir(tmp_path)
    async with opened("sqlite:///here.db"), opened(f"sqlite:///{tmp_path}/there.db"):
        pass
    assert (tmp_path / "here.db").exists()
    assert (tmp_path / "there.db").exists()


async def test_what_is_in_memory_is_gone_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: Open
) -> None:
    monkeypatch.chdir(tmp_path)
    async with opened("sqlite://") as db:
        await db.write(beat)
        assert await workers(db) == [("w",)]
    async with opened("sqlite://") as db:
        assert await workers(db) == []
    assert files(tmp_path) == []


async def test_a_database_that_lacks_a_migration_is_refused_when_none_is_wanted(
    tmp_path: Path, opened: Open
) -> None:
    with pytest.raises(CannotOpen, match=r"lacks 0001_chats, .*: run `holdfast migrate`"):
        async with opened(f"sqlite:///{tmp_path}/chats.db", migrate=False):
            pass


# --- Only reading -------------------------------------------------------------------------------


async def test_whoever_only_reads_may_do_so_beside_a_writer(url: str, opened: Open) -> None:
    async with opened(url) as writer, opened(url, writes=False) as reader:
        assert await workers(reader) == []
        await writer.write(beat)
        assert await workers(reader) == [("w",)]
        assert not reader.exclusive


async def test_what_is_opened_to_be_read_cannot_be_written(tmp_path: Path, opened: Open) -> None:
    url = f"sqlite:///{tmp_path}/chats.db"
    async with opened(url):
        pass
    async with opened(url, writes=False) as db:
        with pytest.raises(Unavailable, match="it may only be read"):
            await db.write(beat)


async def test_a_server_that_takes_no_writes_can_be_read(postgres_url: str, opened: Open) -> None:
    url = f"{postgres_url}&default_transaction_read_only=on"
    async with opened(url, writes=False) as db:
        assert await workers(db) == []


async def test_what_is_not_there_is_not_made_to_be_read(tmp_path: Path, opened: Open) -> None:
    with pytest.raises(CannotOpen, match=r"none\.db does not exist: name another file"):
        async with opened(f"sqlite:///{tmp_path}/none.db", writes=False):
            pass
    with pytest.raises(CannotOpen, match="is not a regular file"):
        async with opened(f"sqlite:///{tmp_path}", writes=False):
            pass
    assert files(tmp_path) == []


async def test_a_database_in_memory_cannot_be_found_again(opened: Open) -> None:
    with pytest.raises(ConfigError, match="name a file to read"):
        async with opened("sqlite://", writes=False):
            pass


async def test_what_lacks_a_migration_is_refused_to_readers_and_stays_as_it_is(
    tmp_path: Path, opened: Open
) -> None:
    path = tmp_path / "chats.db"
    apsw.Connection(str(path)).execute("CREATE TABLE mine (x)").connection.close()
    before = path.read_bytes()
    with pytest.raises(CannotOpen, match="lacks 0001_chats"):
        async with opened(f"sqlite:///{path}", writes=False):
            pass
    assert path.read_bytes() == before


@pytest.fixture
def bare_url(databases: Any) -> Iterator[str]:
    """Of a database on the server that has nothing in it."""
    name = databases.take()
    yield databases.url(name)
    databases.drop(name)


async def test_an_empty_database_on_a_server_is_refused_to_readers_and_stays_empty(
    bare_url: str, opened: Open
) -> None:
    with pytest.raises(CannotOpen, match=r"lacks 0001_chats, .*: run `holdfast migrate`"):
        async with opened(bare_url, writes=False):
            pass
    import asyncpg

    connection = await asyncpg.connect(bare_url)
    tables = await connection.fetch("SELECT 1 FROM pg_tables WHERE schemaname = 'public'")
    await connection.close()
    assert tables == []
