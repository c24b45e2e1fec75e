"""A PostgreSQL transaction, as passed to the function that runs in it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

from asyncpg import ReadOnlySQLTransactionError

from holdfast.store.database import NO_PARAMS, Dialect, Notice, Params, Row, StoreError
from holdfast.store.placeholders import Statement, missing_value, numbered
from holdfast.store.postgres.connect import refused
from holdfast.store.postgres.pooler import transaction

if TYPE_CHECKING:
    from holdfast.store.postgres.connect import Connection

T = TypeVar("T")


class PostgresTx:
    """A transaction that its creator has begun, and ends."""

    def __init__(
        self, connection: Connection, dialect: Dialect, now: Callable[[], int] | None
    ) -> None:
        self._connection = connection
        self._dialect = dialect
        self._now = now
        self.told: list[Notice] = []
        self.failed: Exception | None = None
        """The first error. PostgreSQL rejects every later statement, even if the error was
        caught."""
        self._over = False

    @property
    def dialect(self) -> Dialect:
        return self._dialect

    async def fetch(self, sql: str, params: Params = NO_PARAMS) -> Sequence[Row]:
        rows = await self._ask(self._connection.fetch, sql, params)
        return cast("Sequence[Row]", rows)  # a record can be indexed like a tuple

    async def fetch_many(self, sql: str, params: Sequence[Params]) -> Sequence[Row]:
        return [row for each in params for row in await self.fetch(sql, each)]

    async def one(self, sql: str, params: Params = NO_PARAMS) -> Row | None:
        row = await self._ask(self._connection.fetchrow, sql, params)
        return cast("Row | None", row)

    async def execute(self, sql: str, params: Params = NO_PARAMS) -> int:
        return _changed(await self._ask(self._connection.execute, sql, params))

    async def execute_many(self, sql: str, params: Sequence[Params]) -> None:
        if not params:
            return
        statement = numbered(sql)
        values = [self._values(statement, each) for each in params]
        await self._send(self._connection.executemany(statement.text, values))

    async def script(self, sql: str) -> None:
        """Run several statements, without parameters. They may take long."""
        await self._send(self._connection.execute(sql, timeout=86_400))

    def tell(self, notice: Notice) -> None:
        self.told.append(notice)

    def end(self) -> None:
        """Invalidate the transaction: its connection now belongs to others."""
        self._over = True
        self.failed = None  # its traceback refers to this object

    async def _ask(self, way: Callable[..., Awaitable[T]], sql: str, params: Params) -> T:
        statement = numbered(sql)
        return await self._send(way(statement.text, *self._values(statement, params)))

    async def _send(self, asking: Awaitable[T]) -> T:
        if self._over:
            _never(asking)
            raise StoreError("this transaction is over: begin another")
        try:
            return await asking
        except Exception as error:
            why = self._refused(error)
            self.failed = self.failed or why
            if why is error:
                raise
            raise why from error

    def _refused(self, error: Exception) -> Exception:
        return refused(self._connection, error)

    def _values(self, statement: Statement, params: Params) -> list[Any]:
        if self._now is not None and "now" in statement.names:
            params = {**params, "now": self._now()}
        try:
            return [params[name] for name in statement.names]
        except KeyError as missing:
            raise missing_value(missing) from None


class ReadTx(PostgresTx):
    """A read-only transaction."""

    def tell(self, notice: Notice) -> NoReturn:
        raise StoreError("a read cannot send notices: use write")

    def _refused(self, error: Exception) -> Exception:
        if isinstance(error, ReadOnlySQLTransactionError):
            return StoreError("a read must not write: use write")
        return super()._refused(error)


class OneStatement(PostgresTx):
    """A transaction made of a single statement: committed once that is answered."""

    sent = False
    committed = False

    async def _send(self, asking: Awaitable[T]) -> T:
        if self.sent:
            _never(asking)
            raise RuntimeError("this transaction is made of one statement, not of several")
        self.sent = True
        answer = await super()._send(asking)
        self.committed = True
        return answer


class PooledStatement(OneStatement):
    """A single-statement transaction through a pooler, with the settings that it needs."""

    def __init__(
        self, connection: Connection, dialect: Dialect, now: Callable[[], int] | None, begin: str
    ) -> None:
        super().__init__(connection, dialect, now)
        self._begin = begin

    async def _send(self, asking: Awaitable[T]) -> T:
        return await super()._send(asking if self.sent else self._in_transaction(asking))

    async def _in_transaction(self, asking: Awaitable[T]) -> T:
        try:
            async with transaction(self._connection, self._begin):
                return await asking
        finally:
            _never(asking)


def _never(asking: Awaitable[Any]) -> None:
    """Close a coroutine that is not awaited, to avoid Python's warning."""
    if close := getattr(asking, "close", None):
        close()


def _changed(status: str) -> int:
    """Return the number of rows from a command status such as `UPDATE 3` or `INSERT 0 1`."""
    verb, _, rest = status.partition(" ")
    count = rest.rpartition(" ")[2]
    return int(count) if verb in ("INSERT", "UPDATE", "DELETE", "MERGE") else 0
