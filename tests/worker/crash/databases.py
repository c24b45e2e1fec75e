"""Databases to crash on: a fresh one for each point, opened anew for each life."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Protocol

from holdfast.store.database import Changed, Database
from holdfast.store.sqlite.database import open_sqlite
from holdfast.testing import Clock, VirtualLoop
from tests.databases import EMPTY
from tests.store.sample_table import NoticeRecorder, notifying


class Arena(Protocol):
    name: str
    wait: float
    """Seconds after which a new process may take the chats of a dead one."""

    async def fresh(self) -> None:
        """Nothing is in it any more."""
        ...

    def open(self, life: int) -> AbstractAsyncContextManager[Database]: ...


class SqliteArena:
    """A new file for each point."""

    name = "sqlite"
    wait = 0.0

    def __init__(self, directory: Path, clock: Clock) -> None:
        self._directory = directory
        self._clock = clock
        self._points = 0

    async def fresh(self) -> None:
        template = self._directory / "template.db"
        if not template.exists():
            async with self._open(template):
                pass
        shutil.rmtree(self._place, ignore_errors=True)
        self._points += 1
        self._place.mkdir()
        shutil.copy(template, self._place / "chats.db")

    @property
    def _place(self) -> Path:
        return self._directory / str(self._points)

    def open(self, life: int) -> AbstractAsyncContextManager[Database]:
        return self._open(self._place / "chats.db")

    def _open(self, path: Path) -> AbstractAsyncContextManager[Database]:
        return open_sqlite(path, now=self._clock.now, thread=False)


@asynccontextmanager
async def sqlite_arena(directory: Path, clock: Clock) -> AsyncIterator[SqliteArena]:
    """On a disk in memory where there is one: processes die here, and no machine does."""
    with TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else directory) as place:
        yield SqliteArena(Path(place), clock)


MEMORY: Final = Path("/dev/shm")


class PostgresArena:
    """One database for all points, emptied between them; two who have it open, life by life."""

    name = "postgres"
    wait = 16.0

    def __init__(self, admin: Any, opened: tuple[Database, Database]) -> None:
        self._admin = admin
        self._opened = opened
        self._points = 0

    async def fresh(self) -> None:
        await self._admin.execute(WITHOUT_ENDING_OTHERS)
        self._points += 1
        one, other = self._opened
        await self._all_came(one, other)
        await self._all_came(other, one)

    async def _all_came(self, sender: Database, hearer: Database) -> None:
        """Notices come in order: with this one come those of the point before, whose chats have the
        same names as those of the next."""
        ear, last = NoticeRecorder(hearer), Changed("no chat", self._points)
        await sender.write(notifying(last))
        await ear.until(last)
        ear.end()

    @asynccontextmanager
    async def open(self, life: int) -> AsyncIterator[Database]:
        yield self._opened[life % 2]


WITHOUT_ENDING_OTHERS: Final = EMPTY.replace("SELECT pg_terminate_backend(pid)", "SELECT pid")


@asynccontextmanager
async def postgres_arena(url: str, clock: Clock) -> AsyncIterator[PostgresArena]:
    import asyncpg

    from holdfast.store.postgres.database import open_postgres

    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    loop.io_grace = 0.0  # whoever waits for the server holds the time
    async with AsyncExitStack() as stack:
        opened = [
            await stack.enter_async_context(open_postgres(url, now=clock.now, probe=None))
            for _ in range(2)
        ]
        admin = await asyncpg.connect(url)
        try:
            yield PostgresArena(admin, (opened[0], opened[1]))
        finally:
            await admin.close()
