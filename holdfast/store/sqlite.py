"""SQLite as a store: one thread that writes, two that read, and one file that nobody else writes.

What is short is done on the event loop itself, in less time than a thread would take to wake up.

Transactions that wait at the same time share one commit. Each is a member with a savepoint of its
own, so that one which fails touches no other; when the commit itself fails, each is run again
alone. A function may therefore run twice, and only one run counts.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, suppress
from os import PathLike
from typing import Any, Final, NoReturn, TypeVar, cast

import apsw

from holdfast.store.database import (
    GROUP,
    NO_PARAMS,
    SQLITE,
    Bulk,
    CannotOpen,
    Closed,
    Dialect,
    Hold,
    Notice,
    OtherLoop,
    Params,
    Row,
    StoreError,
    Transaction,
    Unavailable,
    Violation,
)
from holdfast.store.file import File, open_file
from holdfast.store.lane import Divided, Inline, Lane, Nearby
from holdfast.store.migrate import Migration, Script, check
from holdfast.store.migrate import migrate as apply_migrations
from holdfast.store.notices import Notices
from holdfast.store.outcome import Answer, Waits
from holdfast.store.placeholders import taken

T = TypeVar("T")
A = TypeVar("A")

LOG: Final = logging.getLogger("holdfast")

ENDED: Final = "a transaction must not end itself: leave BEGIN, COMMIT and ROLLBACK out of it"


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

    def _lanes(self, file: File, thread: bool) -> tuple[Lane[_Job[Any]], Lane[_Job[Any]]]:
        loop, deliver, writer = self._loop, self._deliver, _Writer(file)
        readers = [_Reader(connection) for connection in file.readers]
        writes: Lane[_Job[Any]]
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
        lane: Lane[_Job[Any]],
        function: Callable[..., Awaitable[T]],
        arguments: tuple[Any, ...],
        *,
        reads: bool = False,
        short: bool = False,
        bulk: Bulk[Any, T] | None = None,
    ) -> _Job[T]:
        if self._closed:
            raise Closed
        if asyncio.get_running_loop() is not self._loop:
            raise OtherLoop
        job = _Job(function, arguments, self._now(), reads, bulk)
        lane.submit(job, short=short)
        return job

    def _deliver(self, jobs: Sequence[_Job[Any]]) -> None:
        """On the loop, once it is certain what became of the jobs."""
        for job in jobs:
            job.tell()
        for job in jobs:
            if job.notices:
                self._notices.tell(job.notices)


async def _within(hold: Hold, waiting: Awaitable[T]) -> T:
    with hold():
        return await waiting


class _Job(Answer[T]):
    """A transaction on its way: the function, and what became of it."""

    __slots__ = ("arguments", "bulk", "function", "notices", "now", "reads")

    def __init__(
        self,
        function: Callable[..., Awaitable[T]],
        arguments: tuple[Any, ...],
        now: int,
        reads: bool,
        bulk: Bulk[Any, T] | None,
    ) -> None:
        super().__init__()
        self.function = function
        self.arguments = arguments
        self.now = now
        self.reads = reads
        self.bulk = bulk
        """Of which it is one, if it has a form for many."""
        self.notices: Sequence[Notice] = ()

    def succeed(self, value: T, notices: Sequence[Notice]) -> None:
        self.value = value
        self.error = None
        self.notices = notices

    def fail(self, error: BaseException) -> None:
        self.error = error
        self.notices = ()


def _ran(function: Callable[..., Awaitable[T]], tx: _Tx, *arguments: Any) -> T:
    """Run a transaction's function to its end, which it reaches without being suspended."""
    try:
        coroutine: Coroutine[Any, Any, T] = function(tx, *arguments)  # type: ignore[assignment]
        coroutine.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    finally:
        tx.end()
    with suppress(Exception):  # the one below says what is wrong
        coroutine.close()
    raise TypeError(
        f"{function!r} waits for something else than the database: "
        "do that before or after the transaction"
    )


def _runs(jobs: Sequence[_Job[T]]) -> Iterator[Sequence[_Job[T]]]:
    """The jobs in their order, those together that are of one bulk and of different chats."""
    run: list[_Job[T]] = []
    chats: set[object] = set()
    for job in jobs:
        chat = None if job.bulk is None else getattr(job.arguments[0], "chat", None)
        if run and (job.bulk is None or job.bulk is not run[0].bulk or chat in chats):
            yield run
            run, chats = [], set()
        run.append(job)
        if chat is not None:
            chats.add(chat)
    yield run


# --- On a connection -----------------------------------------------------------------------------


class _Writer:
    """Runs transactions on the one connection that writes."""

    def __init__(self, file: File) -> None:
        self._file = file
        self._connection = file.writer
        self._cursor = file.writer.cursor()
        self._reader = None if file.readers else _Reader(file.writer, shared=True)

    @property
    def behind(self) -> bool:
        return self._file.log_is_long

    def catch_up(self) -> None:
        self._file.shorten_log()

    def run(self, jobs: list[_Job[Any]]) -> None:
        if self._reader is not None:
            # Before the writes: what these change is not committed until the end of the batch.
            self._reader.run([job for job in jobs if job.reads])
            jobs = [job for job in jobs if not job.reads]
        if len(jobs) > 1 and (self._as_one(jobs) or self._together(jobs)):
            return
        for job in jobs:
            self._alone(job)

    def close(self) -> None:
        self._file.close()

    def _alone(self, job: _Job[Any]) -> None:
        execute = self._cursor.execute
        try:
            execute("BEGIN IMMEDIATE")
            self._member(job)
            execute("COMMIT")
        except BaseException as error:
            self._roll_back()
            job.fail(_own(error, self._connection))

    def _as_one(self, jobs: Sequence[_Job[Any]]) -> bool:
        """Whether the jobs were committed as one. If not, nothing is changed and no job failed.

        The usual case, in which none is refused: then none needs a savepoint.
        """
        execute = self._cursor.execute
        try:
            execute("BEGIN IMMEDIATE")
            for run in _runs(jobs):
                self._members(run)
            execute("COMMIT")
        except BaseException:
            self._roll_back()
            return False
        return True

    def _together(self, jobs: Sequence[_Job[Any]]) -> bool:
        """The same with jobs that may be refused, which touches no other."""
        execute = self._cursor.execute
        try:
            execute("BEGIN IMMEDIATE")
            for job in jobs:
                execute("SAVEPOINT member")
                try:
                    self._member(job)
                except _Broken:
                    raise
                except BaseException as error:
                    execute("ROLLBACK TO member")
                    job.fail(error)
                execute("RELEASE member")
            execute("COMMIT")
        except BaseException:  # the transaction's own, and so nobody's until one fails alone
            self._roll_back()
            return False
        return True

    def _members(self, run: Sequence[_Job[Any]]) -> None:
        """Run jobs of one bulk in its form for many."""
        first = run[0]
        if first.bulk is None or len(run) == 1:
            self._member(first)
            return
        ones = [job.arguments[0] for job in run]
        # At the time of the last of them: of what they change, nothing is younger.
        values, notices = self._run(run[-1].now, first.bulk.together, ones)
        if len(values) != len(run) or None in values:
            raise _Apart
        for job, value in zip(run, values, strict=True):
            job.succeed(value, ())
        first.notices = notices

    def _member(self, job: _Job[Any]) -> None:
        job.succeed(*self._run(job.now, job.function, *job.arguments))

    def _run(
        self, now: int, function: Callable[..., Awaitable[T]], *arguments: Any
    ) -> tuple[T, Sequence[Notice]]:
        """Run a function. `_Broken` when the whole transaction is lost with it."""
        tx = _Tx(self._connection, self._cursor, now)
        try:
            made = _ran(function, tx, *arguments)
        except BaseException as error:
            if tx.broken is not None or not self._connection.in_transaction:
                raise _Broken from error
            raise
        if tx.broken is not None:  # the function took no notice
            raise _Broken from tx.broken
        if not self._connection.in_transaction:
            raise _Broken from StoreError(ENDED)
        return made, tx.notices

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            try:
                self._cursor.execute("ROLLBACK")
            except apsw.Error:
                LOG.exception("SQLite could not roll back")


class _Broken(Exception):
    """The whole transaction is lost; the cause says why."""


class _Apart(Exception):
    """Not all of a bulk could take part: each is to be run by itself."""


class _Reader:
    """Runs functions that only read, each on one snapshot."""

    behind = False

    def catch_up(self) -> None:
        """It never is."""

    def __init__(self, connection: apsw.Connection, *, shared: bool = False) -> None:
        """`shared`: with a writer, between whose transactions this one runs."""
        self._connection = connection
        self._cursor = connection.cursor()
        self._shared = shared

    def run(self, jobs: Sequence[_Job[Any]]) -> None:
        for job in jobs:
            if job.waiter is not None and job.waiter.cancelled():
                continue
            try:
                if self._shared:
                    self._cursor.execute("PRAGMA query_only = ON")
                self._snapshot(job)
            except BaseException as error:
                job.fail(_own(error, self._connection))
            finally:
                if self._shared:
                    self._cursor.execute("PRAGMA query_only = OFF")

    def close(self) -> None:
        self._connection.close()

    def _snapshot(self, job: _Job[Any]) -> None:
        execute = self._cursor.execute
        execute("BEGIN")
        try:
            tx = _ReadTx(self._connection, self._cursor, job.now)
            job.succeed(_ran(job.function, tx, *job.arguments), ())
        finally:
            if self._connection.in_transaction:
                execute("ROLLBACK")


class _Tx:
    """A transaction, as the function that runs in it sees it."""

    __slots__ = ("_connection", "_execute", "_execute_many", "_now", "broken", "notices")

    dialect: Final[Dialect] = SQLITE

    def __init__(self, connection: apsw.Connection, cursor: apsw.Cursor, now: int) -> None:
        self._connection = connection
        self._execute: Callable[..., apsw.Cursor] = cursor.execute
        self._execute_many: Callable[..., apsw.Cursor] = cursor.executemany
        self._now = now
        self.notices: list[Notice] = []
        self.broken: StoreError | None = None
        """Why nothing of this transaction can be kept."""

    async def fetch(self, sql: str, params: Params = NO_PARAMS) -> Sequence[Row]:
        return self._run(sql, params)

    async def fetch_many(self, sql: str, params: Sequence[Params]) -> Sequence[Row]:
        return self._run_many(sql, params)

    async def one(self, sql: str, params: Params = NO_PARAMS) -> Row | None:
        rows = self._run(sql, params)
        return rows[0] if rows else None

    async def execute(self, sql: str, params: Params = NO_PARAMS) -> int:
        # SQLite's own count stays as it was when a statement changes nothing.
        before = self._connection.total_changes()
        self._run(sql, params)
        return self._connection.changes() if self._connection.total_changes() != before else 0

    async def execute_many(self, sql: str, params: Sequence[Params]) -> None:
        self._run_many(sql, params)

    async def script(self, sql: str) -> None:
        self._run(sql, NO_PARAMS)
        if not self._connection.in_transaction:
            self._break(StoreError(ENDED))
            raise StoreError(ENDED)

    def tell(self, notice: Notice) -> None:
        self.notices.append(notice)

    def end(self) -> None:
        """Whoever kept it can do nothing with it any more."""
        self._execute = self._execute_many = _over

    def _run(self, sql: str, params: Params) -> list[tuple[Any, ...]]:
        values = taken(sql).values(params, self._now)
        try:
            return self._execute(sql, values).fetchall()
        except apsw.Error as error:
            raise self._refused(error) from error

    def _run_many(self, sql: str, params: Sequence[Params]) -> list[tuple[Any, ...]]:
        take, now = taken(sql).values, self._now
        values = [take(each, now) for each in params]
        try:
            return self._execute_many(sql, values).fetchall()
        except apsw.Error as error:
            raise self._refused(error) from error

    def _refused(self, error: apsw.Error) -> StoreError:
        refusal = _refusal(error, self._connection)
        if isinstance(refusal, Unavailable) or not self._connection.in_transaction:
            self._break(refusal)
        return refusal

    def _break(self, why: StoreError) -> None:
        """SQLite may have rolled back by itself: what came now would be committed on its own."""
        self.broken = why
        self.end()


class _ReadTx(_Tx):
    __slots__ = ()

    def tell(self, notice: Notice) -> NoReturn:
        raise StoreError("a read changes nothing, so it has nothing to tell: use write")

    def _refused(self, error: apsw.Error) -> StoreError:
        if isinstance(error, apsw.ReadOnlyError):
            return StoreError("a read must not write: use write")
        return super()._refused(error)


def _over(*_: object) -> NoReturn:
    raise StoreError("this transaction is over: begin another")


# --- Errors --------------------------------------------------------------------------------------

_UNAVAILABLE: Final[Mapping[type[Exception], str]] = {
    apsw.FullError: "the disk is full, free some space",
    apsw.IOError: "the disk cannot be read or written, check it",
    apsw.ReadOnlyError: "it may only be read now, check its permissions and its disk",
    apsw.BusyError: "another program has it locked, close that program",
    apsw.LockedError: "another connection has it locked",
    apsw.CantOpenError: "a file beside it cannot be opened, check the directory",
    apsw.PermissionsError: "there is no permission, check its directory",
    apsw.ProtocolError: "another program has it locked, close that program",
    apsw.NoMemError: "there is not enough memory",
    apsw.InterruptError: "it was interrupted",
    apsw.CorruptError: "it is damaged, restore it from a backup",
    apsw.NotADBError: "it is damaged, restore it from a backup",
}
"""What is no fault of the statement."""
_VIOLATION: Final = (apsw.ConstraintError, apsw.MismatchError, apsw.TooBigError)


def _own(error: BaseException, connection: apsw.Connection) -> BaseException:
    """The error that the owner of a transaction gets."""
    if isinstance(error, _Broken) and error.__cause__ is not None:
        return error.__cause__
    return _refusal(error, connection) if isinstance(error, apsw.Error) else error


def _refusal(error: apsw.Error, connection: apsw.Connection) -> StoreError:
    if isinstance(error, _VIOLATION):
        return Violation(str(error))
    if (why := _UNAVAILABLE.get(type(error))) is not None:
        name = connection.filename or "the database in memory"
        return Unavailable(f"nothing was changed in {name}: {why} (SQLite says: {error})")
    return StoreError(f"SQLite refuses the statement: {error}")
