"""Virtual time stands still while a database is busy, and only then."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from pathlib import Path

import asyncpg

from holdfast.store.database import Changed, Claimable, Database, NoticesLost, Tx
from holdfast.store.postgres.database import open_postgres
from holdfast.store.sqlite.database import open_sqlite
from holdfast.testing import Clock
from tests.store.sample_table import NoticeRecorder, notifying


async def test_no_time_passes_while_postgresql_is_busy(postgres_url: str) -> None:
    loop = asyncio.get_running_loop()

    async def sleep(tx: Tx) -> None:
        await tx.fetch("SELECT 1 FROM pg_sleep(0.02)")

    async with open_postgres(postgres_url, probe=None) as db:
        await asyncio.gather(
            db.read(sleep), db.write(sleep), asyncio.wait_for(db.read(sleep), 1e-6)
        )
    assert loop.time() == 0


async def test_no_time_passes_while_a_thread_of_sqlite_is_busy(tmp_path: Path) -> None:
    loop = asyncio.get_running_loop()

    async def sleep(tx: Tx) -> None:
        time.sleep(0.02)  # noqa: ASYNC251 - in the thread of the database

    async with open_sqlite(tmp_path / "chats.db", now=Clock().now) as db:
        await asyncio.gather(
            db.read(sleep), db.write(sleep), asyncio.wait_for(db.read(sleep), 1e-6)
        )
    assert loop.time() == 0


async def test_time_passes_while_a_server_is_idle(postgres_url: str) -> None:
    async with open_postgres(postgres_url, probe=None) as db:
        await pass_an_hour(db)


async def test_time_passes_while_the_threads_of_sqlite_are_idle(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "chats.db", now=Clock().now) as db:
        await pass_an_hour(db)


async def pass_an_hour(db: Database) -> None:
    """Transactions first: one that is committed, and one that is rolled back."""
    await db.write(notifying(Changed("a", 1)))
    with suppress(LookupError):
        await db.write(failing)
    async with asyncio.timeout(3601):
        await asyncio.sleep(3600)


async def failing(tx: Tx) -> None:
    raise LookupError


async def test_a_notification_that_was_sent_has_reached_every_other_database(
    postgres_url: str,
) -> None:
    """So no timer fires between a commit and its notice."""
    async with (
        open_postgres(postgres_url, probe=None) as sender,
        open_postgres(postgres_url, probe=None) as one,
        open_postgres(postgres_url, probe=None) as other,
    ):
        recorders = [NoticeRecorder(one), NoticeRecorder(other)]
        for version in range(20):
            await sender.write(notifying(Changed("a", version), Claimable("b")))
            await one.write(notifying(Changed("c", version)))  # at the same time
            await asyncio.sleep(0.006)
            assert Changed("a", version) in recorders[0].notices
            assert {Changed("a", version), Changed("c", version)} <= set(recorders[1].notices)


async def test_a_notification_is_not_waited_for_where_nothing_listens_any_more(
    postgres_url: str,
) -> None:
    loop = asyncio.get_running_loop()
    async with open_postgres(postgres_url, probe=None) as sender:
        async with open_postgres(postgres_url, probe=None):
            pass
        recorder = NoticeRecorder(sender)
        raw = await asyncpg.connect(postgres_url)
        await raw.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
            "WHERE datname = current_database() AND query LIKE 'LISTEN%'"
        )
        await raw.close()
        await sender.write(notifying(Changed("a", 1)))
        await recorder.until(NoticesLost())
        await asyncio.sleep(60)
    assert loop.time() >= 60
