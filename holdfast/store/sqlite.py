"""SQLite as a store: one thread that writes, two that read, and one file that nobody else writes.

What is short is done on the event loop itself, in less time than a thread would take to wake up.

Transactions that wait at the same time share one commit (`lite/group.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Sequence,
)
from contextlib import asynccontextmanager
from os import PathLike
from typing import Any, Final, TypeVar, cast

import apsw

from holdfast.store.database import (
    GROUP,
    SQLITE,
    Bulk,
    CannotOpen,
    Closed,
    Dialect,
    Hold,
    Notice,
    OtherLoop,
    Transaction,
)
from holdfast.store.lite.file import File, open_file
from holdfast.store.lite.group import Job, Reader, Writer
from holdfast.store.lite.lane import Divided, Inline, Lane, Nearby
from holdfast.store.migrate import Migration, Script, check
from holdfast.store.migrate import migrate as apply_migrations
from holdfast.store.notices import Notices
from holdfast.store.outcome import Waits

T = TypeVar("T")
A = TypeVar("A")


@asynccontextmanager
async def open_sqlite(
    path: str | PathLike[str],
    *,
    now: Callable[[], int],
    hold: Hold | None = None,
    thread: bool = True,
    migrate: bool = True,
    writes: bool = True,
    migrations: Sequence[Migration] | None = None,
    version: str | None = None,
) -> AsyncIterator[Sqlite]:
    """Open a database file for this process alone, making it if need be; `:memory:` makes no file.

    `now` is asked on the event loop when a transaction is handed over, and is its `:now`. Without
    `thread` everything runs on the loop, in an order that is the same each time. Without `migrate`
    a database that lacks a migration is refused. Without `writes` it is only read, beside a process
    that writes, and it has to be there. `version` is SQLite's, for tests.
    """
    file = open_file(path, version or apsw.sqlite_lib_version(), writes=writes)
    database = Sqlite(file, now, hold, thread)
    try:
        database.applied = await database.bring_up(migrate and writes, migrations)
        yield database
    finally:
        await database.close()


class Sqlite:
    """A SQLite database, open in this process."""

    dialect: Final[Dialect] = SQLITE
    applied: Sequence[str] = ()
    """The migrations that were applied when it was opened."""

    def __init__(self, file: File, now: Callable[[], int], hold: Hold | None, thread: bool) -> None:
        self.exclusive: Final = file.exclusive
        """The lock on the file, or its being in memory, proves it."""
        self._path = file.path
        self._now = now
        self._hold = hold
        self._notices = Notices()
        self._loop = asyncio.get_running_loop()
        self._waits = Waits(self._loop)
        self._closed = False
        self._writes, self._reads = self._lanes(file, thread)

    async def bring_up(
        self, migrate: bool, migrations: Sequence[Migration] | None
    ) -> Sequence[str]:
        """Once, by `open_sqlite`: apply what it lacks, or refuse it for that."""
        try:
            return await (apply_migrations if migrate else check)(self, SQLITE, migrations)
        except CannotOpen as error:
            raise CannotOpen(f"{self._path}: {error}") from error.__cause__

    async def write(self, transaction: Transaction[T], *, short: bool = False) -> T:
        job = self._submit(self._writes, transaction, (), short=short)
        return await self._held(self._waits.answered(job))

    async def write_together(self, bulk: Bulk[A, T], one: A) -> T:
        job = self._submit(self._writes, bulk.alone, (one,), short=True, bulk=bulk)
        return await self._held(self._waits.answered(job))

    async def read(self, transaction: Transaction[T], *, short: bool = False) -> T:
        job = self._submit(self._reads, transaction, (), reads=True, short=short)
        waiter = job.waiter = self._loop.create_future()
        await self._held(waiter)  # nothing is changed, so whoever is cancelled need not wait
        return job.get()

    async def change_schema(self, transaction: Callable[[Script], Awaitable[T]]) -> T:
        """A transaction that may run scripts. No other process can be in one: `exclusive`."""
        return await self.write(cast(Transaction[T], transaction))

    def listen(self, hear: Callable[[Notice], None]) -> Callable[[], None]:
        return self._notices.listen(hear)

    async def close(self) -> None:
        """Finish what was submitted, and give the file back."""
        self._closed = True
        await self._held(self._stop())

    async def _stop(self) -> None:
        try:
            if self._reads is not self._writes:
                await self._reads.stop()
        finally:
            await self._writes.stop()
            self._waits.close()

    def _held(self, waiting: Awaitable[T]) -> Awaitable[T]:
        return waiting if self._hold is None else _within(self._hold, waiting)

    def _lanes(self, file: File, thread: bool) -> tuple[Lane[Job[Any]], Lane[Job[Any]]]:
        loop, deliver, writer = self._loop, self._deliver, Writer(file)
        readers = [Reader(connection) for connection in file.readers]
        writes: Lane[Job[Any]]
        if not thread:
            writes = Inline(loop, deliver, writer, GROUP)
            return writes, Inline(loop, deliver, readers[0], 1) if readers else writes
        writes = Nearby(loop, deliver, writer, GROUP)
        if not readers:
            return writes, writes
        *beside, near = readers
        return writes, Divided(loop, deliver, near, beside)

    def _submit(
        self,
        lane: Lane[Job[Any]],
        function: Callable[..., Awaitable[T]],
        arguments: tuple[Any, ...],
        *,
        reads: bool = False,
        short: bool = False,
        bulk: Bulk[Any, T] | None = None,
    ) -> Job[T]:
        if self._closed:
            raise Closed
        if asyncio.get_running_loop() is not self._loop:
            raise OtherLoop
        job = Job(function, arguments, self._now(), reads, bulk)
        lane.submit(job, short=short)
        return job

    def _deliver(self, jobs: Sequence[Job[Any]]) -> None:
        """On the loop, once it is certain what became of the jobs."""
        for job in jobs:
            job.tell()
        for job in jobs:
            if job.notices:
                self._notices.tell(job.notices)


async def _within(hold: Hold, waiting: Awaitable[T]) -> T:
    with hold():
        return await waiting
