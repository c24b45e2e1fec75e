"""Support for connection poolers such as PgBouncer.

A pooler may give each transaction another connection to the server. So connections have no state:
settings are part of the transaction, and statements are not prepared in advance. That is correct
in every mode of a pooler. Only LISTEN needs a direct connection.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import asyncpg

if TYPE_CHECKING:
    from holdfast.store.postgres.connect import Connection


async def is_pooled(connection: Connection) -> bool:
    """Return whether a pooler is used: it reports a process id that is not the server's."""
    try:
        pid: int = await connection.fetchval("SELECT pg_backend_pid()")
    except (
        asyncpg.InvalidSQLStatementNameError,  # prepared on another connection to the server
        asyncpg.DuplicatePreparedStatementError,  # prepared on this one, by another client
    ):
        return True
    return pid != connection.get_server_pid()


def begin(statement: str, settings: Mapping[str, str]) -> str:
    """Return one command that begins a transaction with its own settings, in one round trip."""
    local = (f"SET LOCAL {name} = '{value}'" for name, value in settings.items())
    return "; ".join((statement, *local))


@asynccontextmanager
async def transaction(connection: Connection, statement: str) -> AsyncIterator[None]:
    """Run a block in a transaction begun by a statement from `begin`."""
    await connection.execute(statement)
    try:
        yield
    except BaseException:
        await _roll_back(connection)
        raise
    await connection.execute("COMMIT")


async def _roll_back(connection: Connection) -> None:
    try:
        if not connection.is_closed():
            await connection.execute("ROLLBACK")
    except Exception:
        connection.terminate()  # which also rolls back
