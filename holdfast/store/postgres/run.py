"""Running transactions on pooled connections, with retries where they are safe."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from holdfast.store.database import Notice, OutcomeUnknown
from holdfast.store.postgres.connect import refused
from holdfast.store.postgres.errors import Busy, Lost
from holdfast.store.postgres.pool import Pool
from holdfast.store.postgres.transaction import PostgresTx

if TYPE_CHECKING:
    from holdfast.store.postgres.connect import Connection

T = TypeVar("T")

NewTx: TypeAlias = "Callable[[Connection], PostgresTx]"
Function: TypeAlias = Callable[[PostgresTx], Awaitable[T]]

TRIES: Final = 4
"""Maximum number of runs of a transaction that conflicts with others."""

WRITE: Final = "BEGIN"
READ: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
"""All statements see what was committed when the first of them began."""


class Stale(Lost):
    """The connection was lost, and a retry on another one is safe."""


async def lend(pool: Pool, use: Callable[[Connection], Awaitable[T]]) -> T:
    """Use a connection of the pool; retry on a new one, or after a conflict."""
    tries = 1
    fresh = False
    while True:
        connection = await pool.take()
        try:
            return await use(connection)
        except Stale:
            if fresh:
                raise
            fresh = True
            pool.forget()
        except Busy:
            if tries == TRIES:
                raise
            tries += 1
        finally:
            pool.give(connection)


async def write(
    connection: Connection, new_tx: NewTx, function: Function[T], begin: str = WRITE
) -> tuple[T, Sequence[Notice]]:
    """Run a transaction and commit it; returns its result and its notices."""
    await _begin(connection, begin)
    tx = new_tx(connection)
    result = await _run(connection, tx, function)
    await _commit(connection)
    return result, tx.told


async def read(
    connection: Connection, new_tx: NewTx, function: Function[T], begin: str = READ
) -> T:
    """Run a read-only transaction. It may be retried, because it changes nothing."""
    await _begin(connection, begin)
    try:
        result = await _run(connection, new_tx(connection), function)
    except Lost as error:
        raise Stale(str(error)) from error
    await _roll_back(connection)
    return result


async def _begin(connection: Connection, how: str) -> None:
    try:
        await connection.execute(how)
    except Exception as error:
        why = refused(connection, error)
        raise Stale(str(why)) if isinstance(why, Lost) else why from error
    except BaseException:
        connection.terminate()
        raise


async def _run(connection: Connection, tx: PostgresTx, function: Function[T]) -> T:
    try:
        result = await function(tx)
        if tx.failed:
            raise tx.failed
        return result
    except Exception:
        await _roll_back(connection)
        raise
    except BaseException:  # there is no time to wait for the server's answer
        connection.terminate()
        raise
    finally:
        tx.end()


async def _commit(connection: Connection) -> None:
    if connection.is_closed():
        raise Lost("the connection to the database was lost")
    try:
        await connection.execute("COMMIT")
    except Exception as error:
        why = refused(connection, error)
        raise OutcomeUnknown(str(why)) if isinstance(why, Lost) else why from error
    except BaseException:
        connection.terminate()
        raise


async def _roll_back(connection: Connection) -> None:
    try:
        if not connection.is_closed():
            await connection.execute("ROLLBACK")
    except BaseException as error:
        connection.terminate()  # which rolls back too
        if not isinstance(error, Exception):
            raise
