"""Runs transactions on connections of the pool, with retries where they are safe."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from holdfast.store.database import ChangeNotice, OutcomeUnknown
from holdfast.store.postgres.connect import statement_error
from holdfast.store.postgres.errors import LostConnection, TransactionConflict
from holdfast.store.postgres.pool import ConnectionPool
from holdfast.store.postgres.transaction import PostgresTx

if TYPE_CHECKING:
    from holdfast.store.postgres.connect import Connection

T = TypeVar("T")

NewTx: TypeAlias = "Callable[[Connection], PostgresTx]"
TransactionFunction: TypeAlias = Callable[[PostgresTx], Awaitable[T]]

MAX_TRIES: Final = 4
"""Maximum number of runs of a transaction that conflicts with others."""

WRITE: Final = "BEGIN"
READ: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
"""All statements of a read see the data that was committed when the first of them began."""


class StaleConnection(LostConnection):
    """The connection was lost, and a retry on another one is safe."""


async def with_connection(
    pool: ConnectionPool, function: Callable[[Connection], Awaitable[T]]
) -> T:
    """Use a connection of the pool; retry on a new one, or after a conflict."""
    attempt = 1
    is_retry = False
    while True:
        connection = await pool.take()
        try:
            return await function(connection)
        except StaleConnection:
            if is_retry:
                raise
            is_retry = True
            pool.forget()
        except TransactionConflict:
            if attempt == MAX_TRIES:
                raise
            attempt += 1
        finally:
            pool.give(connection)


async def write(
    connection: Connection, new_tx: NewTx, function: TransactionFunction[T], begin: str = WRITE
) -> tuple[T, Sequence[ChangeNotice]]:
    """Run a transaction and commit it. Returns its result and its notices."""
    await _begin(connection, begin)
    tx = new_tx(connection)
    result = await _run(connection, tx, function)
    await _commit(connection)
    return result, tx.notices


async def read(
    connection: Connection, new_tx: NewTx, function: TransactionFunction[T], begin: str = READ
) -> T:
    """Run a read-only transaction. It may be retried, because it changes nothing."""
    await _begin(connection, begin)
    try:
        result = await _run(connection, new_tx(connection), function)
    except LostConnection as error:
        raise StaleConnection(str(error)) from error
    await _roll_back(connection)
    return result


async def _begin(connection: Connection, statement: str) -> None:
    try:
        await connection.execute(statement)
    except Exception as error:
        converted = statement_error(connection, error)
        raise (
            StaleConnection(str(converted)) if isinstance(converted, LostConnection) else converted
        ) from error
    except BaseException:
        connection.terminate()
        raise


async def _run(connection: Connection, tx: PostgresTx, function: TransactionFunction[T]) -> T:
    try:
        result = await function(tx)
        if tx.failed:
            raise tx.failed
        return result
    except Exception:
        await _roll_back(connection)
        raise
    except BaseException:  # a cancellation, which must not wait for the server
        connection.terminate()
        raise
    finally:
        tx.end()


async def _commit(connection: Connection) -> None:
    if connection.is_closed():
        raise LostConnection("the connection to the database was lost")
    try:
        await connection.execute("COMMIT")
    except Exception as error:
        converted = statement_error(connection, error)
        raise (
            OutcomeUnknown(str(converted)) if isinstance(converted, LostConnection) else converted
        ) from error
    except BaseException:
        connection.terminate()
        raise


async def _roll_back(connection: Connection) -> None:
    try:
        if not connection.is_closed():
            await connection.execute("ROLLBACK")
    except BaseException as error:
        connection.terminate()  # which also rolls back
        if not isinstance(error, Exception):
            raise
