"""A SQLite transaction, as passed to the function that runs in it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NoReturn, TypeVar

import apsw

from holdfast.store.database import (
    NO_PARAMS,
    SQLITE,
    ChangeNotice,
    Damaged,
    Dialect,
    NotWritable,
    Params,
    Row,
    StoreError,
    Unavailable,
    Violation,
)
from holdfast.store.named_parameters import value_order

T = TypeVar("T")

ENDED_ITSELF: Final = (
    "a transaction must not end itself: leave BEGIN, COMMIT and ROLLBACK out of it"
)


def run_to_end(function: Callable[..., Awaitable[T]], tx: SqliteTx, *arguments: Any) -> T:
    """Run a transaction's function to its end. It must not be suspended."""
    try:
        coroutine: Coroutine[Any, Any, T] = function(tx, *arguments)  # type: ignore[assignment]
        coroutine.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    finally:
        tx.end()
    with suppress(Exception):  # the error below has the reason
        coroutine.close()
    raise TypeError(
        f"{function!r} waits for something other than the database: "
        "do that before or after the transaction"
    )


class SqliteTx:
    """A transaction, as passed to the function that runs in it."""

    __slots__ = ("_connection", "_execute", "_execute_many", "_now", "broken", "notices")

    dialect: Final[Dialect] = SQLITE

    def __init__(self, connection: apsw.Connection, cursor: apsw.Cursor, now: int) -> None:
        self._connection = connection
        self._execute: Callable[..., apsw.Cursor] = cursor.execute
        self._execute_many: Callable[..., apsw.Cursor] = cursor.executemany
        self._now = now
        self.notices: list[ChangeNotice] = []
        self.broken: StoreError | None = None
        """The reason why this transaction cannot be committed."""

    async def fetch(self, sql: str, params: Params = NO_PARAMS) -> Sequence[Row]:
        return self._run(sql, params)

    async def fetch_many(self, sql: str, params: Sequence[Params]) -> Sequence[Row]:
        return self._run_many(sql, params)

    async def one(self, sql: str, params: Params = NO_PARAMS) -> Row | None:
        rows = self._run(sql, params)
        return rows[0] if rows else None

    async def execute(self, sql: str, params: Params = NO_PARAMS) -> int:
        # SQLite keeps its previous count when a statement changes nothing.
        changes_before = self._connection.total_changes()
        self._run(sql, params)
        has_changed = self._connection.total_changes() != changes_before
        return self._connection.changes() if has_changed else 0

    async def execute_many(self, sql: str, params: Sequence[Params]) -> None:
        self._run_many(sql, params)

    async def script(self, sql: str) -> None:
        self._run(sql, NO_PARAMS)
        if not self._connection.in_transaction:
            self._break(StoreError(ENDED_ITSELF))
            raise StoreError(ENDED_ITSELF)

    def notify(self, notice: ChangeNotice) -> None:
        self.notices.append(notice)

    def end(self) -> None:
        """Invalidate the transaction."""
        self._execute = self._execute_many = _transaction_over

    def _run(self, sql: str, params: Params) -> list[tuple[Any, ...]]:
        values = value_order(sql).values(params, self._now)
        try:
            return self._execute(sql, values).fetchall()
        except apsw.Error as error:
            raise self._convert_error(error) from error
        except UnicodeDecodeError as error:  # SQLite stores any bytes as text
            raise Damaged(f"a stored text is not UTF-8: {error}") from error

    def _run_many(self, sql: str, params: Sequence[Params]) -> list[tuple[Any, ...]]:
        order, now = value_order(sql).values, self._now
        values = [order(one_set, now) for one_set in params]
        try:
            return self._execute_many(sql, values).fetchall()
        except apsw.Error as error:
            raise self._convert_error(error) from error
        except UnicodeDecodeError as error:
            raise Damaged(f"a stored text is not UTF-8: {error}") from error

    def _convert_error(self, error: apsw.Error) -> StoreError:
        converted = store_error(error, self._connection)
        if isinstance(converted, Unavailable) or not self._connection.in_transaction:
            self._break(converted)
        return converted

    def _break(self, why: StoreError) -> None:
        """Reject all further statements.

        SQLite may have rolled back, and would commit each of them separately.
        """
        self.broken = why
        self.end()


class SqliteReadTx(SqliteTx):
    """A read-only transaction."""

    __slots__ = ()

    def notify(self, notice: ChangeNotice) -> NoReturn:
        raise StoreError("a read cannot send notices: use write")

    def _convert_error(self, error: apsw.Error) -> StoreError:
        if isinstance(error, apsw.ReadOnlyError):
            return StoreError("a read must not write: use write")
        return super()._convert_error(error)


def _transaction_over(*_: object) -> NoReturn:
    raise StoreError("this transaction is over: begin another")


# --- Errors of SQLite ----------------------------------------------------------------------------

_NOT_WRITABLE: Final[Mapping[type[Exception], str]] = {
    apsw.FullError: "the disk is full, free some space",
    apsw.IOError: "the disk cannot be read or written, check it",
    apsw.ReadOnlyError: "it may only be read now, check its permissions and its disk",
    apsw.CantOpenError: "a file next to it cannot be opened, check the directory",
    apsw.PermissionsError: "there is no permission, check its directory",
}
"""Errors of the disk: the next write is likely to fail in the same way."""
_UNAVAILABLE: Final[Mapping[type[Exception], str]] = {
    **_NOT_WRITABLE,
    apsw.BusyError: "another program has it locked, close that program",
    apsw.LockedError: "another connection has it locked",
    apsw.ProtocolError: "another program has it locked, close that program",
    apsw.NoMemError: "there is not enough memory",
    apsw.InterruptError: "it was interrupted",
    apsw.CorruptError: "it is damaged, restore it from a backup",
    apsw.NotADBError: "it is damaged, restore it from a backup",
}
"""Errors that the statement did not cause."""
_VIOLATION: Final = (apsw.ConstraintError, apsw.MismatchError, apsw.TooBigError)


def store_error(error: apsw.Error, connection: apsw.Connection) -> StoreError:
    """Convert an error of SQLite to one of the store."""
    if isinstance(error, _VIOLATION):
        return Violation(str(error))
    if (why := _UNAVAILABLE.get(type(error))) is not None:
        name = connection.filename or "the database in memory"
        kind = NotWritable if type(error) in _NOT_WRITABLE else Unavailable
        return kind(f"nothing was changed in {name}: {why} (SQLite says: {error})")
    return StoreError(f"SQLite refuses the statement: {error}")
