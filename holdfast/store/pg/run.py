"""Running a transaction on a connection of the pool, and once more where that is right."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from holdfast.store.database import Notice, OutcomeUnknown
from holdfast.store.pg.connect import refused
from holdfast.store.pg.pool import Pool
from holdfast.store.pg.refusals import Busy, Lost
from holdfast.store.pg.transaction import PostgresTx

if TYPE_CHECKING:
    from holdfast.store.pg.connect import Connection

T = TypeVar("T")

NewTx: TypeAlias = "Callable[[Connection], PostgresTx]"
Function: TypeAlias = Callable[[PostgresTx], Awaitable[T]]

TRIES: Final = 4
"""How often a transaction is run that others are in the way of."""

WRITE: Final = "BEGIN"
READ: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
"""All its statements see what was committed when the first of them began."""


class Stale(Lost):
    """The connection was lost, and whoever wanted it may as well take another one."""


async def lend(pool: Pool, use: Callable[[Connection], Awaitable[T]]) -> T:
    """Use a connection of the pool; again with a new one, or when others were in the way."""
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
    connection: Connection, new_tx: NewTx, function: Function[T]
) -> tuple[T, Sequence[Notice]]:
    """Run a transaction and commit it: its result, and whom to tell what."""
    await _begin(connection, WRITE)
    tx = new_tx(connection)
    result = await _run(connection, tx, function)
    await _commit(connection)
    return result, tx.told


async def read(connection: Connection, new_tx: NewTx, function: Function[T]) -> T:
    """Run a transaction that only reads. Nothing is lost with it, so it may run again."""
    await _begin(connection, READ)
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
    except BaseException:  # no time for the server's answer
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
