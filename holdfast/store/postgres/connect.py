"""Connections to PostgreSQL: settings, and errors of connecting."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import urlsplit

import asyncpg

from holdfast.store.database import OUTCOME, CannotOpen
from holdfast.store.postgres.errors import Lost, refusal

if TYPE_CHECKING:
    Connection: TypeAlias = asyncpg.Connection[asyncpg.Record]

OLDEST: Final = 14
"""The oldest supported major version."""

CONNECTING: Final = 10.0
ANSWER: Final = 15.0
"""Timeout of a statement in seconds. After it the connection counts as dead."""
LOCKED: Final = 2.0
"""Seconds to wait for a locked row. Several such waits fit into `OUTCOME`."""
assert 4 * LOCKED < OUTCOME < ANSWER

TRANSACTION: Final = {
    "jit": "off",  # costs more than it gains on statements of a few milliseconds
    "lock_timeout": f"{LOCKED:g}s",
    "statement_timeout": f"{ANSWER:g}s",
    # Locks of a process that vanished are released within a minute.
    "idle_in_transaction_session_timeout": "60s",
}
"""Settings that each transaction sets for itself when a pooler is used."""
SETTINGS: Final = {
    **TRANSACTION,
    "default_transaction_isolation": "read committed",
    "tcp_keepalives_idle": "20",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "3",
}


async def connect(url: str, *, pooled: bool) -> Connection:
    """Open a connection. `pooled`: statements are not prepared in advance."""
    return await asyncpg.connect(
        url,
        timeout=CONNECTING,
        command_timeout=ANSWER,
        statement_cache_size=0 if pooled else 512,
        max_cached_statement_lifetime=0,
        # PgBouncer refuses every other parameter here.
        server_settings={"application_name": "holdfast"},
    )


async def configure(connection: Connection, settings: Mapping[str, str]) -> None:
    """Apply the common settings and `settings` for the lifetime of the connection."""
    try:
        await connection.execute(
            "; ".join(f"SET {name} = '{value}'" for name, value in {**SETTINGS, **settings}.items())
        )
    except BaseException:
        connection.terminate()
        raise


def refused(connection: Connection, error: Exception) -> Exception:
    """Convert the error of a statement; a lost connection is also terminated."""
    why = refusal(error, closed=connection.is_closed())
    if isinstance(why, Lost):
        connection.terminate()
    return why


def unreachable(error: Exception, url: str) -> str:
    """Explain why connecting failed, and what to do. Never shows the password."""
    where = address(url)
    match getattr(error, "sqlstate", None):
        case "28P01" | "28000":
            return f"{where} refuses the user: {error}. Check user and password of the URL"
        case "3D000":
            return f"{where} does not have the database: {error}. Make it, as with createdb"
        case str():
            return f"{where} takes no connection: {refusal(error, closed=False)}"
    if isinstance(error, ValueError):
        return (
            "the URL of the database cannot be read. It looks like "
            "postgresql://user:password@host:5432/name; in a password, characters like / # @ : "
            "are written as %2F %23 %40 %3A"
        )
    if isinstance(error, TimeoutError):
        return f"{where} did not answer within {CONNECTING:g} s: check host and port of the URL"
    return f"{where} cannot be reached: {error}. Start it, or check host and port of the URL"


def may_pass(error: Exception) -> bool:
    """Return whether a failure to connect may be temporary: the server restarts or is not up
    yet."""
    code = getattr(error, "sqlstate", None)
    if isinstance(code, str):
        return isinstance(refusal(error, closed=False), Lost) or code.startswith("53")
    return isinstance(error, (OSError, TimeoutError))


def address(url: str) -> str:
    """Describe the server for people. Never shows the password."""
    try:
        _, at, host = urlsplit(url).netloc.rpartition("@")
    except ValueError:
        return "PostgreSQL"
    if not host or ("@" in url and not at):  # what looks like the host may be a piece of password
        return "PostgreSQL"
    return f"PostgreSQL at {host}"


def check_server(version: int, encoding: str) -> None:
    """Refuse an unsupported server version or encoding."""
    if version < OLDEST:
        raise CannotOpen(
            f"PostgreSQL {version} is too old: {OLDEST} or later is needed, upgrade the server"
        )
    if encoding.replace("-", "").upper() != "UTF8":
        raise CannotOpen(
            f"the database is encoded in {encoding}: make one with ENCODING 'UTF8', as with "
            "createdb --encoding=UTF8 --template=template0"
        )
