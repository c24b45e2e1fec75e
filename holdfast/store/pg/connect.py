"""Connections to PostgreSQL: how they are set up, and why one could not be made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import urlsplit

import asyncpg

from holdfast.store.database import OUTCOME, CannotOpen
from holdfast.store.pg.refusals import Lost, refusal

if TYPE_CHECKING:
    Connection: TypeAlias = asyncpg.Connection[asyncpg.Record]

OLDEST: Final = 14
"""The first major version that will do."""

CONNECTING: Final = 10.0
ANSWER: Final = 15.0
"""Seconds that a statement may take. Longer: the connection is taken for dead."""
LOCKED: Final = 2.0
"""Seconds to wait for a row that others hold. Several such waits fit into `OUTCOME`."""
assert 4 * LOCKED < OUTCOME < ANSWER

SETTINGS: Final = {
    "application_name": "holdfast",
    "default_transaction_isolation": "read committed",
    "jit": "off",  # costs more than it gains on statements of some milliseconds
    "lock_timeout": f"{LOCKED:g}s",
    "statement_timeout": f"{ANSWER:g}s",
    # The locks of a process that vanished without a word are freed within a minute.
    "idle_in_transaction_session_timeout": "60s",
    "tcp_keepalives_idle": "20",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "3",
}


async def connect(url: str, **settings: str) -> Connection:
    """A connection of one's own, with more settings of the server than all have."""
    return await asyncpg.connect(
        url,
        timeout=CONNECTING,
        command_timeout=ANSWER,
        statement_cache_size=512,
        max_cached_statement_lifetime=0,
        server_settings={**SETTINGS, **settings},
    )


def refused(connection: Connection, error: Exception) -> Exception:
    """The store's error for a statement's; a connection that is lost is also given up."""
    why = refusal(error, closed=connection.is_closed())
    if isinstance(why, Lost):
        connection.terminate()
    return why


def unreachable(error: Exception, url: str) -> str:
    """Why there is no connection, and what to do. Never shows the password."""
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


def address(url: str) -> str:
    """Which server that is, for people. Never shows the password."""
    try:
        _, at, host = urlsplit(url).netloc.rpartition("@")
    except ValueError:
        return "PostgreSQL"
    if not host or ("@" in url and not at):  # what looks like the host may be a piece of password
        return "PostgreSQL"
    return f"PostgreSQL at {host}"


def check_server(version: int, encoding: str) -> None:
    """Refuse a server that this code was not written for."""
    if version < OLDEST:
        raise CannotOpen(
            f"PostgreSQL {version} is too old: {OLDEST} or later is needed, upgrade the server"
        )
    if encoding.replace("-", "").upper() != "UTF8":
        raise CannotOpen(
            f"the database is encoded in {encoding}: make one with ENCODING 'UTF8', as with "
            "createdb --encoding=UTF8 --template=template0"
        )
