"""Connections to PostgreSQL: how they are opened and configured, and errors of connecting."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import urlsplit

import asyncpg

from holdfast.store.database import OUTCOME_TIMEOUT, CannotOpen
from holdfast.store.postgres.errors import LostConnection, store_error

if TYPE_CHECKING:
    Connection: TypeAlias = asyncpg.Connection[asyncpg.Record]

OLDEST_VERSION: Final = 14
"""The oldest supported major version."""

CONNECT_TIMEOUT: Final = 10.0
STATEMENT_TIMEOUT: Final = 15.0
"""Timeout of a statement in seconds. After it the connection counts as dead."""
LOCK_TIMEOUT: Final = 2.0
"""Seconds to wait for a locked row. Several such waits fit into `OUTCOME_TIMEOUT`."""
assert 4 * LOCK_TIMEOUT < OUTCOME_TIMEOUT < STATEMENT_TIMEOUT

TRANSACTION_SETTINGS: Final = {
    "jit": "off",  # costs more than it gains on statements of a few milliseconds
    "lock_timeout": f"{LOCK_TIMEOUT:g}s",
    "statement_timeout": f"{STATEMENT_TIMEOUT:g}s",
    # Locks of a process that vanished are released within a minute.
    "idle_in_transaction_session_timeout": "60s",
}
"""Settings that each transaction sets for itself when a pooler is used."""
CONNECTION_SETTINGS: Final = {
    **TRANSACTION_SETTINGS,
    "default_transaction_isolation": "read committed",
    "tcp_keepalives_idle": "20",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "3",
}


async def connect(url: str, *, pooled: bool) -> Connection:
    """Open a connection. `pooled`: statements are not prepared in advance."""
    return await asyncpg.connect(
        url,
        timeout=CONNECT_TIMEOUT,
        command_timeout=STATEMENT_TIMEOUT,
        statement_cache_size=0 if pooled else 512,
        max_cached_statement_lifetime=0,
        # PgBouncer refuses every other parameter here.
        server_settings={"application_name": "holdfast"},
    )


async def configure(connection: Connection, settings: Mapping[str, str]) -> None:
    """Apply the common settings and `settings` for the lifetime of the connection."""
    every = {**CONNECTION_SETTINGS, **settings}
    try:
        await connection.execute(
            "; ".join(f"SET {name} = '{value}'" for name, value in every.items())
        )
    except BaseException:
        connection.terminate()
        raise


def statement_error(connection: Connection, error: Exception) -> Exception:
    """Convert the error of a statement; a lost connection is also terminated."""
    converted = store_error(error, closed=connection.is_closed())
    if isinstance(converted, LostConnection):
        connection.terminate()
    return converted


def explain_connect_error(error: Exception, url: str) -> str:
    """Explain a connection error, and what to do. Never shows the password."""
    server = address(url)
    match getattr(error, "sqlstate", None):
        case "28P01" | "28000":
            return f"{server} refuses the user: {error}. Check user and password of the URL"
        case "3D000":
            return f"{server} does not have the database: {error}. Create it, as with createdb"
        case str():
            return f"{server} refuses the connection: {store_error(error, closed=False)}"
    if isinstance(error, ValueError):
        return (
            "the URL of the database cannot be read. It looks like "
            "postgresql://user:password@host:5432/name; in a password, characters like / # @ : "
            "are written as %2F %23 %40 %3A"
        )
    if isinstance(error, TimeoutError):
        return (
            f"{server} did not answer within {CONNECT_TIMEOUT:g} s: check host and port of the URL"
        )
    return f"{server} cannot be reached: {error}. Start it, or check host and port of the URL"


def is_temporary(error: Exception) -> bool:
    """Return whether a connection error may be temporary, as while the server starts."""
    code = getattr(error, "sqlstate", None)
    if isinstance(code, str):
        return isinstance(store_error(error, closed=False), LostConnection) or code.startswith("53")
    return isinstance(error, (OSError, TimeoutError))


def address(url: str) -> str:
    """Describe the server of a URL for people. Never shows the password."""
    try:
        _, at, host = urlsplit(url).netloc.rpartition("@")
    except ValueError:
        return "PostgreSQL"
    if not host or ("@" in url and not at):  # the apparent host may be part of the password
        return "PostgreSQL"
    return f"PostgreSQL at {host}"


def check_server(version: int, encoding: str) -> None:
    """Raise `CannotOpen` for an unsupported server version or encoding."""
    if version < OLDEST_VERSION:
        raise CannotOpen(
            f"PostgreSQL {version} is too old: {OLDEST_VERSION} or later is needed, upgrade it"
        )
    if encoding.replace("-", "").upper() != "UTF8":
        raise CannotOpen(
            f"the database is encoded in {encoding}: create one with ENCODING 'UTF8', as with "
            "createdb --encoding=UTF8 --template=template0"
        )
