"""Group commit on SQLite: transactions that wait at the same time share one commit.

If one is rejected, each runs in its own savepoint, so that the others are not affected; if the
commit itself fails, each is run again alone. So a function may run twice, of which only one run is
committed.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

import apsw

from holdfast.store.database import Bulk, ChangeNotice, NotWritable, StoreError
from holdfast.store.sqlite.file import DatabaseFile
from holdfast.store.sqlite.transaction import (
    ENDED_ITSELF,
    SqliteReadTx,
    SqliteTx,
    run_to_end,
    store_error,
)
from holdfast.store.transaction_outcome import Completion

T = TypeVar("T")

LOG: Final = logging.getLogger("holdfast")


class Job(Completion[T]):
    """A submitted transaction: the function, and its outcome."""

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
        """The bulk transaction that it is an item of, if any."""
        self.notices: Sequence[ChangeNotice] = ()

    def succeed(self, value: T, notices: Sequence[ChangeNotice]) -> None:
        """Set the result and the notices."""
        self.value = value
        self.error = None
        self.notices = notices

    def fail(self, error: BaseException) -> None:
        """Set the error."""
        self.error = error
        self.notices = ()


class WriteRunner:
    """Runs transactions on the only connection that writes."""

    def __init__(self, file: DatabaseFile) -> None:
        self._file = file
        self._connection = file.writer
        self._cursor = file.writer.cursor()
        self._reader = None if file.readers else ReadRunner(file.writer, shared=True)

    @property
    def needs_catch_up(self) -> bool:
        return self._file.needs_catch_up

    def catch_up(self) -> None:
        self._file.catch_up()

    def run(self, jobs: list[Job[Any]]) -> None:
        if self._reader is not None:
            # Before the writes, which are not committed until the end of the batch.
            self._reader.run([job for job in jobs if job.reads])
            jobs = [job for job in jobs if not job.reads]
        try:
            self._file.check_replaced()
        except NotWritable as error:
            for job in jobs:
                job.fail(NotWritable(str(error)))  # one each: raising adds to its traceback
            return
        if len(jobs) > 1 and (
            self._commit_without_savepoints(jobs) or self._commit_with_savepoints(jobs)
        ):
            return
        for job in jobs:
            self._alone(job)

    def close(self) -> None:
        self._file.close()

    def _alone(self, job: Job[Any]) -> None:
        execute = self._cursor.execute
        try:
            execute("BEGIN IMMEDIATE")
            self._run_job(job)
            execute("COMMIT")
        except BaseException as error:
            self._roll_back()
            job.fail(_error_of_job(error, self._connection))

    def _commit_without_savepoints(self, jobs: Sequence[Job[Any]]) -> bool:
        """Commit the jobs together, in the usual case that none is rejected.

        Returns whether that succeeded. If not, nothing was changed, and no job has failed yet.
        """
        execute = self._cursor.execute
        try:
            execute("BEGIN IMMEDIATE")
            for run in _runs(jobs):
                self._run_bulk(run)
            execute("COMMIT")
        except BaseException:
            self._roll_back()
            return False
        return True

    def _commit_with_savepoints(self, jobs: Sequence[Job[Any]]) -> bool:
        """Commit jobs together, each in a savepoint because it may be rejected.

        Returns whether that succeeded.
        """
        execute = self._cursor.execute
        try:
            execute("BEGIN IMMEDIATE")
            for job in jobs:
                execute("SAVEPOINT member")
                try:
                    self._run_job(job)
                except _Broken:
                    raise
                except BaseException as error:
                    execute("ROLLBACK TO member")
                    job.fail(error)
                execute("RELEASE member")
            execute("COMMIT")
        except BaseException:  # an error of the whole transaction: each job is then run alone
            self._roll_back()
            return False
        return True

    def _run_bulk(self, run: Sequence[Job[Any]]) -> None:
        """Run the jobs of one bulk transaction together."""
        first_job = run[0]
        if first_job.bulk is None or len(run) == 1:
            self._run_job(first_job)
            return
        items = [job.arguments[0] for job in run]
        # With the time of the last job, so that times do not decrease between commits.
        values, notices = self._run(run[-1].now, first_job.bulk.together, items)
        if len(values) != len(run) or None in values:
            raise _NotTogether
        for job, value in zip(run, values, strict=True):
            job.succeed(value, ())
        first_job.notices = notices

    def _run_job(self, job: Job[Any]) -> None:
        job.succeed(*self._run(job.now, job.function, *job.arguments))

    def _run(
        self, now: int, function: Callable[..., Awaitable[T]], *arguments: Any
    ) -> tuple[T, Sequence[ChangeNotice]]:
        """Run a function. Raises `_Broken` if its error also ends the whole transaction."""
        tx = SqliteTx(self._connection, self._cursor, now)
        try:
            value = run_to_end(function, tx, *arguments)
        except BaseException as error:
            if tx.broken is not None or not self._connection.in_transaction:
                raise _Broken from error
            raise
        if tx.broken is not None:  # the function ignored the error
            raise _Broken from tx.broken
        if not self._connection.in_transaction:
            raise _Broken from StoreError(ENDED_ITSELF)
        return value, tx.notices

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            try:
                self._cursor.execute("ROLLBACK")
            except apsw.Error:
                LOG.exception("SQLite could not roll back")


class _Broken(Exception):
    """The whole transaction has failed; the cause is the reason."""


class _NotTogether(Exception):
    """Not all jobs of a bulk could take part: each is run alone."""


class ReadRunner:
    """Runs read-only transactions, each on one snapshot."""

    needs_catch_up = False

    def __init__(self, connection: apsw.Connection, *, shared: bool = False) -> None:
        """`shared`: the connection is the writer's, and is used between its transactions."""
        self._connection = connection
        self._cursor = connection.cursor()
        self._shared = shared

    def run(self, jobs: Sequence[Job[Any]]) -> None:
        for job in jobs:
            if job.waiter is not None and job.waiter.cancelled():
                continue
            try:
                if self._shared:
                    self._cursor.execute("PRAGMA query_only = ON")
                self._snapshot(job)
            except BaseException as error:
                job.fail(_error_of_job(error, self._connection))
            finally:
                if self._shared:
                    self._cursor.execute("PRAGMA query_only = OFF")

    def catch_up(self) -> None:
        """Do nothing: reads leave nothing to catch up with."""

    def close(self) -> None:
        self._connection.close()

    def _snapshot(self, job: Job[Any]) -> None:
        execute = self._cursor.execute
        execute("BEGIN")
        try:
            tx = SqliteReadTx(self._connection, self._cursor, job.now)
            job.succeed(run_to_end(job.function, tx, *job.arguments), ())
        finally:
            if self._connection.in_transaction:
                execute("ROLLBACK")


def _runs(jobs: Sequence[Job[T]]) -> Iterator[Sequence[Job[T]]]:
    """Group the jobs in order: consecutive jobs of one bulk and of different chats."""
    run: list[Job[T]] = []
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


def _error_of_job(error: BaseException, connection: apsw.Connection) -> BaseException:
    """Return the error that the caller of a transaction receives."""
    if isinstance(error, _Broken) and error.__cause__ is not None:
        return error.__cause__
    return store_error(error, connection) if isinstance(error, apsw.Error) else error
