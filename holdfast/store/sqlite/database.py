"""SQLite as a store: one writing thread, two reading threads, and one file locked by this process.

Short transactions run on the event loop itself, in less time than waking a thread takes.

Transactions that wait at the same time share one commit (`group_commit.py`).
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
    MAX_GROUP_SIZE,
    SQLITE,
    Bulk,
    CannotOpen,
    ChangeNotice,
    Closed,
    Dialect,
    OtherLoop,
    Transaction,
)
from holdfast.store.migrate import Migration, SchemaTx, check
from holdfast.store.migrate import migrate as apply_migrations
from holdfast.store.notice_listeners import NoticeListeners
from holdfast.store.sqlite.executors import (
    Executor,
    InlineExecutor,
    LoopFirstExecutor,
    SplitExecutor,
)
from holdfast.store.sqlite.file import DatabaseFile, open_file
from holdfast.store.sqlite.group_commit import Job, ReadRunner, WriteRunner
from holdfast.store.transaction_outcome import Waits
from holdfast.store.write_health import WriteHealth

T = TypeVar("T")
A = TypeVar("A")


@asynccontextmanager
async def open_sqlite(
    path: str | PathLike[str],
    *,
    now: Callable[[], int],
    thread: bool = True,
    migrate: bool = True,
    writes: bool = True,
    migrations: Sequence[Migration] | None = None,
    version: str | None = None,
) -> AsyncIterator[Sqlite]:
    """Open a database file for this process alone, creating it if needed; `:memory:` makes no file.

    `now` is called on the event loop when a transaction is submitted, and returns its `:now`.
    Without `thread`, everything runs on the loop, in a deterministic order. Without `migrate`, a
    database that lacks a migration is refused. Without `writes`, an existing file is opened
    read-only, also while another process writes to it. `version` overrides SQLite's, for tests.
    """
    file = open_file(path, version or apsw.sqlite_lib_version(), writes=writes)
    database = Sqlite(file, now, thread)
    try:
        database.applied = await database.bring_up(migrate and writes, migrations)
        yield database
    finally:
        await database.close()


class Sqlite:
    """A SQLite database, open in this process."""

    dialect: Final[Dialect] = SQLITE
    applied: Sequence[str] = ()
    """Names of the migrations that were applied when it was opened."""
    listens: Final = True
    """Whether no notice is missed without polling: always, as no other process writes."""

    def __init__(self, file: DatabaseFile, now: Callable[[], int], thread: bool) -> None:
        self.exclusive: Final = file.exclusive
        """Whether this process is the only writer, by the file lock or because it is in memory."""
        self._path = file.path
        self._file = file
        self._now = now
        self._notices = NoticeListeners()
        self._loop = asyncio.get_running_loop()
        self._waits = Waits(self._loop)
        self._health = WriteHealth(self._loop.time)
        self._closed = False
        self._writes, self._reads = self._executors(file, thread)

    async def bring_up(
        self, migrate: bool, migrations: Sequence[Migration] | None
    ) -> Sequence[str]:
        """Apply missing migrations, or refuse the database. Called once, by `open_sqlite`."""
        try:
            return await (apply_migrations if migrate else check)(self, SQLITE, migrations)
        except CannotOpen as error:
            raise CannotOpen(f"{self._path}: {error}") from error.__cause__

    async def write(self, transaction: Transaction[T], *, short: bool = False) -> T:
        job = self._submit(self._writes, transaction, (), short=short)
        return await self._waits.wait(job)

    async def write_together(self, bulk: Bulk[A, T], item: A) -> T:
        job = self._submit(self._writes, bulk.alone, (item,), short=True, bulk=bulk)
        return await self._waits.wait(job)

    async def read(self, transaction: Transaction[T], *, short: bool = False) -> T:
        job = self._submit(self._reads, transaction, (), reads=True, short=short)
        waiter = job.waiter = self._loop.create_future()
        await waiter  # nothing is changed, so a cancelled caller need not wait
        return job.get()

    async def change_schema(self, transaction: Callable[[SchemaTx], Awaitable[T]]) -> T:
        """Run a transaction that may run scripts. No other process can run one: see `exclusive`."""
        return await self.write(cast(Transaction[T], transaction))

    def listen(self, hear: Callable[[ChangeNotice], None]) -> Callable[[], None]:
        return self._notices.listen(hear)

    def check_writable(self) -> None:
        if self._closed:
            raise Closed
        self._file.check_writable()
        self._health.check()

    async def close(self) -> None:
        """Finish the submitted transactions, and close the file."""
        self._closed = True
        try:
            if self._reads is not self._writes:
                await self._reads.stop()
        finally:
            await self._writes.stop()
            self._waits.close()

    def _executors(
        self, file: DatabaseFile, thread: bool
    ) -> tuple[Executor[Job[Any]], Executor[Job[Any]]]:
        loop, deliver, writer = self._loop, self._deliver, WriteRunner(file)
        readers = [ReadRunner(connection) for connection in file.readers]
        writes: Executor[Job[Any]]
        if not thread:
            writes = InlineExecutor(loop, deliver, writer, MAX_GROUP_SIZE)
            return writes, InlineExecutor(loop, deliver, readers[0], 1) if readers else writes
        writes = LoopFirstExecutor(loop, deliver, writer, MAX_GROUP_SIZE)
        if not readers:
            return writes, writes
        *in_threads, on_loop = readers
        return writes, SplitExecutor(loop, deliver, on_loop, in_threads)

    def _submit(
        self,
        executor: Executor[Job[Any]],
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
        executor.submit(job, short=short)
        return job

    def _deliver(self, jobs: Sequence[Job[Any]]) -> None:
        """Announce the outcomes of jobs, on the loop."""
        for job in jobs:
            if not job.reads:
                self._health.record(job.error)
            job.announce()
        for job in jobs:
            if job.notices:
                self._notices.notify(job.notices)
