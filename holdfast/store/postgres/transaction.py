"""A PostgreSQL transaction, as passed to the function that runs in it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

from asyncpg import ReadOnlySQLTransactionError

from holdfast.store.database import NO_PARAMS, ChangeNotice, Dialect, Params, Row, StoreError
from holdfast.store.named_parameters import Statement, missing_value, numbered
from holdfast.store.postgres.connect import statement_error
from holdfast.store.postgres.pooler import transaction

if TYPE_CHECKING:
    from holdfast.store.postgres.connect import Connection

T = TypeVar("T")


class PostgresTx:
    """A transaction on a connection. Its creator begins and ends it."""

    def __init__(
        self, connection: Connection, dialect: Dialect, now: Callable[[], int] | None
    ) -> None:
        self._connection = connection
        self._dialect = dialect
        self._now = now
        self.notices: list[ChangeNotice] = []
        self.failed: Exception | None = None
        """The first error, after which PostgreSQL rejects every later statement."""
        self._is_over = False

    @property
    def dialect(self) -> Dialect:
        return self._dialect

    async def fetch(self, sql: str, params: Params = NO_PARAMS) -> Sequence[Row]:
        rows = await self._run(self._connection.fetch, sql, params)
        return cast("Sequence[Row]", rows)  # a record can be indexed like a tuple

    async def fetch_many(self, sql: str, params: Sequence[Params]) -> Sequence[Row]:
        return [row for each in params for row in await self.fetch(sql, each)]

    async def one(self, sql: str, params: Params = NO_PARAMS) -> Row | None:
        row = await self._run(self._connection.fetchrow, sql, params)
        return cast("Row | None", row)

    async def execute(self, sql: str, params: Params = NO_PARAMS) -> int:
        return _row_count(await self._run(self._connection.execute, sql, params))

    async def execute_many(self, sql: str, params: Sequence[Params]) -> None:
        if not params:
            return
        statement = numbered(sql)
        values = [self._values(statement, each) for each in params]
        await self._send(self._connection.executemany(statement.text, values))

    async def script(self, sql: str) -> None:
        """Run several statements, without parameters. They may take long."""
        await self._send(self._connection.execute(sql, timeout=86_400))

    def notify(self, notice: ChangeNotice) -> None:
        self.notices.append(notice)

    def end(self) -> None:
        """Invalidate the transaction: its connection now belongs to others."""
        self._is_over = True
        self.failed = None  # its traceback refers to this object

    async def _run(self, method: Callable[..., Awaitable[T]], sql: str, params: Params) -> T:
        statement = numbered(sql)
        return await self._send(method(statement.text, *self._values(statement, params)))

    async def _send(self, request: Awaitable[T]) -> T:
        if self._is_over:
            _close_unawaited(request)
            raise StoreError("this transaction is over: begin another")
        try:
            return await request
        except Exception as error:
            converted = self._convert_error(error)
            self.failed = self.failed or converted
            if converted is error:
                raise
            raise converted from error

    def _convert_error(self, error: Exception) -> Exception:
        return statement_error(self._connection, error)

    def _values(self, statement: Statement, params: Params) -> list[Any]:
        if self._now is not None and "now" in statement.names:
            params = {**params, "now": self._now()}
        try:
            return [params[name] for name in statement.names]
        except KeyError as missing:
            raise missing_value(missing) from None


class PostgresReadTx(PostgresTx):
    """A read-only transaction."""

    def notify(self, notice: ChangeNotice) -> NoReturn:
        raise StoreError("a read cannot send notices: use write")

    def _convert_error(self, error: Exception) -> Exception:
        if isinstance(error, ReadOnlySQLTransactionError):
            return StoreError("a read must not write: use write")
        return super()._convert_error(error)


class OneStatement(PostgresTx):
    """A transaction of a single statement, which is committed when the server has answered."""

    sent = False
    committed = False

    async def _send(self, request: Awaitable[T]) -> T:
        if self.sent:
            _close_unawaited(request)
            raise RuntimeError("this transaction may have only one statement")
        self.sent = True
        result = await super()._send(request)
        self.committed = True
        return result


class PooledStatement(OneStatement):
    """A single-statement transaction through a pooler, with the settings that it needs."""

    def __init__(
        self, connection: Connection, dialect: Dialect, now: Callable[[], int] | None, begin: str
    ) -> None:
        super().__init__(connection, dialect, now)
        self._begin = begin

    async def _send(self, request: Awaitable[T]) -> T:
        return await super()._send(request if self.sent else self._in_transaction(request))

    async def _in_transaction(self, request: Awaitable[T]) -> T:
        try:
            async with transaction(self._connection, self._begin):
                return await request
        finally:
            _close_unawaited(request)


def _close_unawaited(request: Awaitable[Any]) -> None:
    """Close a coroutine that is not awaited, to avoid Python's warning."""
    if close := getattr(request, "close", None):
        close()


def _row_count(status: str) -> int:
    """Return the number of rows from a command status such as `UPDATE 3` or `INSERT 0 1`."""
    verb, _, rest = status.partition(" ")
    count = rest.rpartition(" ")[2]
    return int(count) if verb in ("INSERT", "UPDATE", "DELETE", "MERGE") else 0
