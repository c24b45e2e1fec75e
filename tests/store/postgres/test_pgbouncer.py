"""Through PgBouncer the store works in session and in transaction mode, and says what does not."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import asyncpg
import pytest

from holdfast.store.database import CannotOpen, Changed, Tx
from holdfast.store.postgres.connect import LOCK_TIMEOUT
from holdfast.store.postgres.database import Postgres, open_postgres
from tests.cli.test_serve import Process, events, serving, text_of
from tests.databases import Databases
from tests.store.postgres.pgbouncer import MISSING, find, install, pooled
from tests.store.sample_table import (
    SCHEMA,
    NoticeRecorder,
    Put,
    Putting,
    inserting,
    notifying,
    values,
)

MODES: Final = ("session", "transaction")


@pytest.fixture(scope="module", autouse=True)
def program() -> None:
    install()
    if find() is None:
        assert not os.environ.get("CI"), MISSING
        pytest.skip(MISSING)


@pytest.fixture(scope="module")
def direct(databases: Databases) -> Iterator[str]:
    """The URL of a database with the table `things`, without a pooler."""
    name = databases.take()

    async def prepare() -> None:
        async with open_postgres(databases.url(name)) as db:
            await db.change_schema(lambda tx: tx.script(SCHEMA))

    databases.run(prepare())
    yield databases.url(name)
    databases.drop(name)


@pytest.fixture(scope="module", params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def through(direct: str, mode: str) -> Iterator[str]:
    """The URL of the same database through PgBouncer."""
    with pooled(direct, mode) as url:
        yield url


@asynccontextmanager
async def opened(url: str, **more: Any) -> AsyncIterator[Postgres]:
    async with open_postgres(url, **{"probe": None, **more}) as db:
        yield db


@pytest.fixture(autouse=True)
def empty(direct: str, databases: Databases) -> Iterator[None]:
    yield

    async def delete() -> None:
        connection = await asyncpg.connect(direct)
        await connection.execute("DELETE FROM things")
        await connection.close()

    databases.run(delete())


async def test_transactions_bulks_and_reads_work(through: str) -> None:
    async with opened(through) as db:
        bulk = Putting()
        await db.write(inserting("a"))
        await asyncio.gather(*(db.write(inserting(f"w{n}")) for n in range(20)))
        await asyncio.gather(*(db.write_together(bulk, Put(f"w{n}", "x")) for n in range(20)))
        assert max(map(len, bulk.groups)) > 1, "they share a commit"
        assert bulk.alones == []
        for _ in range(3):  # the same statement on whatever connection the pooler gives
            assert len(await values(db)) == 21


async def test_every_transaction_has_its_settings_and_leaves_none_behind(
    through: str, direct: str
) -> None:
    async def lock_timeout(tx: Tx) -> Any:
        row = await tx.one("SELECT current_setting('lock_timeout')")
        return row and row[0]

    async with opened(through) as db:
        shown = await asyncio.gather(
            *(db.write(lock_timeout) for _ in range(10)),
            *(db.read(lock_timeout) for _ in range(10)),
        )
        assert set(shown) == {f"{LOCK_TIMEOUT:g}s"}
    other = await asyncpg.connect(through, statement_cache_size=0)
    async with other.transaction():
        assert await other.fetchval("SELECT current_setting('lock_timeout')") == "0"
    await other.close()


async def test_notices_of_others_arrive_in_session_mode_and_are_polled_for_otherwise(
    through: str, direct: str, mode: str
) -> None:
    async with opened(through) as db, opened(direct) as other:
        assert db.listens == (mode == "session")
        heard = NoticeRecorder(db)
        await other.write(notifying(Changed("a", 1)))
        if db.listens:
            await heard.until(Changed("a", 1))
        mine = NoticeRecorder(other)
        await db.write(notifying(Changed("b", 2)))
        await mine.until(Changed("b", 2))


async def test_listen_url_is_for_the_connection_that_listens(through: str, direct: str) -> None:
    async with opened(through, listen_url=direct) as db, opened(direct) as other:
        assert db.listens
        heard = NoticeRecorder(db)
        await other.write(notifying(Changed("a", 1)))
        await heard.until(Changed("a", 1))


async def test_a_listen_url_that_hears_nothing_is_refused(
    through: str, mode: str, databases: Databases, postgres_template: str
) -> None:
    elsewhere = databases.url(postgres_template)
    wrong = [elsewhere, *([through] if mode == "transaction" else [])]
    for url in wrong:
        with pytest.raises(CannotOpen, match="do not arrive at listen_url: name the same database"):
            async with opened(through, listen_url=url):
                pass


async def test_a_pooler_with_too_few_connections_is_refused_and_not_waited_for(direct: str) -> None:
    with (
        pooled(direct, "session", default_pool_size=2, query_wait_timeout=1) as url,
        pytest.raises(CannotOpen, match="allow 13 connections or more"),
    ):
        async with opened(url):
            pass


def test_a_server_behind_a_pooler_answers_and_says_that_it_polls(
    tmp_path: Path, postgres_url: str
) -> None:
    with pooled(postgres_url, "transaction") as url:
        with serving(tmp_path, "--listen", "0", "--database", url) as server:
            assert "after up to 5 s: set listen_url" in server.until("found by polling")
            _hello(server)
        listening = {"HOLDFAST_LISTEN_URL": postgres_url}
        with serving(tmp_path, "--listen", "0", "--database", url, **listening) as server:
            _hello(server)
            assert not any("polling" in line for line in server.said)


def _hello(server: Process) -> None:
    url = server.started()
    made = server.ask(f"{url}/api/v1/chats", {"prompt": "say hello"})
    with server.open(f"{url}/api/v1/chats/{made['id']}/stream") as stream:
        for name, data in events(stream):
            if name == "chat" and data["status"] == "idle" and data["messages"] > 1:
                break
    page = server.ask(f"{url}/api/v1/chats/{made['id']}/messages")
    assert text_of(page["messages"]) == "hello"
    assert server.end() == 0
