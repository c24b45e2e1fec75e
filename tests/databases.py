"""Databases for tests: every test of the store is a test of both kinds.

PostgreSQL is started once for each process that runs tests, or taken from HOLDFAST_TEST_POSTGRES
(the URL of a superuser, or of a user that may make databases). A database that a test is done with
is emptied and used again, because making one takes fifty times as long.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import pytest

from holdfast.testing import Clock
from tests.database_time import held_for_databases

if TYPE_CHECKING:
    import asyncpg

    from holdfast.store.database import Database

OpenDatabase: TypeAlias = "Callable[[], AbstractAsyncContextManager[Database]]"
"""Opens the test's database: several times at once on PostgreSQL, again and again on both."""


class Databases:
    """Databases on a server: made, emptied, dropped. Not for use while an event loop runs."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self._admin: asyncpg.Connection[Any] | None = None
        self._free: list[str] = []
        self._made: list[str] = []

    def take(self, template: str | None = None) -> str:
        """The name of an empty database, or of a copy of the template that nobody else has."""
        if template and self._free:
            return self._free.pop()
        name = f"holdfast_test_{uuid4().hex}"
        self._run(f"CREATE DATABASE {name}" + (f" TEMPLATE {template}" if template else ""))
        self._made.append(name)
        return name

    def give(self, name: str) -> None:
        """Back from a test. One that cannot be emptied is not used again."""
        import asyncpg

        try:
            self.empty(name)
        except asyncpg.PostgresError:
            self.drop(name)
        else:
            self._free.append(name)

    def empty(self, name: str) -> None:
        """Delete every row, and end whoever is still connected."""
        self._runner.run(self._empty(name))

    def drop(self, name: str) -> None:
        self._run(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        self._made.remove(name)

    def url(self, name: str) -> str:
        return urlunsplit(urlsplit(self._url)._replace(path=f"/{name}"))

    def drop_all(self) -> None:
        for name in tuple(self._made):
            self.drop(name)

    def close(self) -> None:
        if self._admin is not None:
            self._runner.run(self._admin.close())
        self._runner.close()

    def run(self, coroutine: Coroutine[Any, Any, None]) -> None:
        self._runner.run(coroutine)

    def _run(self, sql: str) -> None:
        self._runner.run(self._execute(sql))

    async def _execute(self, sql: str) -> None:
        import asyncpg

        if self._admin is None or self._admin.is_closed():
            self._admin = await asyncpg.connect(self._url)
        await self._admin.execute(sql)

    async def _empty(self, name: str) -> None:
        import asyncpg

        connection = await asyncpg.connect(self.url(name))
        try:
            # Guards and foreign keys would want an order of their own.
            await connection.execute(EMPTY)
        finally:
            await connection.close()


EMPTY: Final = """
SET session_replication_role = replica;
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
 WHERE datname = current_database() AND pid <> pg_backend_pid();
DO $$
DECLARE name text;
BEGIN
    FOR name IN SELECT tablename FROM pg_tables
                 WHERE schemaname = 'public' AND tablename <> 'migrations'
    LOOP
        EXECUTE format('DELETE FROM %I', name);
    END LOOP;
END $$;
"""


@pytest.fixture(scope="session", autouse=True)
def hold_time_for_databases() -> Iterator[None]:
    """Virtual time stands still while a database is busy."""
    with held_for_databases():
        yield


@pytest.fixture(scope="session")
def databases() -> Iterator[Databases]:
    """PostgreSQL, for as long as this process runs tests."""
    if url := os.environ.get("HOLDFAST_TEST_POSTGRES"):
        with closing(Databases(url)) as made:
            yield made
            made.drop_all()
        return
    from holdfast.testing.postgres import running

    with running() as server, closing(Databases(server.url())) as made:
        yield made


@pytest.fixture(scope="session")
def postgres_template(databases: Databases) -> str:
    """A database with the schema, to be copied."""
    from holdfast.store.postgres.database import open_postgres

    name = databases.take()

    async def migrate() -> None:
        async with open_postgres(databases.url(name)):
            pass

    databases.run(migrate())
    return name


@pytest.fixture
def postgres_url(databases: Databases, postgres_template: str) -> Iterator[str]:
    """Of an empty database with the schema, for this test alone."""
    name = databases.take(postgres_template)
    yield databases.url(name)
    databases.give(name)


@pytest.fixture
def clock() -> Clock:
    """The time that the test's databases go by."""
    return Clock()


@pytest.fixture(params=["sqlite", "postgres"])
def open_db(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> OpenDatabase:
    """Opens the test's own database, of each kind in turn."""
    if request.param == "postgres":
        url: str = request.getfixturevalue("postgres_url")
        return lambda: _open_postgres(url, clock)
    return lambda: _open_sqlite(tmp_path / "chats.db", clock)


@pytest.fixture
async def db(open_db: OpenDatabase) -> AsyncIterator[Database]:
    """An empty database of each kind in turn, with its schema."""
    async with open_db() as database:
        yield database


def _open_postgres(url: str, clock: Clock) -> AbstractAsyncContextManager[Database]:
    from holdfast.store.postgres.database import open_postgres

    # A probe every few seconds would keep a test going that waits for something that never comes.
    return open_postgres(url, now=clock.now, probe=None)


def _open_sqlite(path: Path, clock: Clock) -> AbstractAsyncContextManager[Database]:
    from holdfast.store.sqlite.database import open_sqlite

    return open_sqlite(path, now=clock.now, thread=False)
