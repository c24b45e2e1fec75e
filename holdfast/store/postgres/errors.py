"""Translation of all errors of PostgreSQL and asyncpg to errors of the store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from asyncpg import DataError, InterfaceError, PostgresError
from asyncpg.exceptions import InternalClientError

from holdfast.store.database import NotWritable, StoreError, Unavailable, Violation


class LostConnection(Unavailable):
    """The connection was lost. Before COMMIT was sent, nothing was changed."""


class TransactionConflict(Unavailable):
    """The transaction conflicted with others. Running it again may succeed."""


ERRORS_BY_SQLSTATE: Final[Mapping[str, tuple[type[StoreError], str]]] = {
    "08": (LostConnection, "the connection to the database was lost"),
    "22": (Violation, "the database cannot hold this value"),
    "23": (Violation, ""),
    "25006": (NotWritable, "the database is read-only: is this a standby server?"),
    "25P03": (LostConnection, "the transaction was idle for too long"),
    "3F000": (Unavailable, "the user of the database may not use its schema: grant it"),
    "40": (TransactionConflict, "the transaction conflicted with another"),
    "42501": (NotWritable, "the user of the database lacks a permission: grant it"),
    "53100": (NotWritable, "the disk of the database is full: free some space"),
    "53200": (Unavailable, "the database is out of memory"),
    "53300": (Unavailable, "the database has too many connections: raise its max_connections"),
    "53": (Unavailable, "the database is out of resources"),
    "55P03": (TransactionConflict, "a row was locked by others for too long"),
    "57014": (Unavailable, "the statement took too long and was stopped"),
    "57P": (LostConnection, "the database is shutting down or starting up"),
    "58": (NotWritable, "the database cannot read or write its files"),
    "HF001": (Violation, ""),
    "P0001": (Violation, ""),
}
"""Error and text by SQLSTATE or its prefix, longest first. The server's own text follows."""


def store_error(error: Exception, *, closed: bool) -> Exception:
    """Convert the error of a statement. `closed` tells whether the connection is closed now.

    An error that is not from the database is returned unchanged.
    """
    if isinstance(error, PostgresError):
        kind, sentence = _error_of(getattr(error, "sqlstate", None) or "")
        if closed and not issubclass(kind, LostConnection):
            kind = LostConnection
        server_text = str(error.args[0] if error.args else error)
        return kind(f"{sentence}: {server_text}" if sentence else server_text)
    if isinstance(error, DataError):
        return Violation(f"the database cannot hold this value: {error}")
    if isinstance(error, TimeoutError):
        return LostConnection("the database did not answer in time")
    if closed or isinstance(error, (OSError, InternalClientError)):
        return LostConnection(f"the connection to the database was lost: {error}")
    if isinstance(error, InterfaceError):
        return StoreError(str(error))
    return error


def _error_of(code: str) -> tuple[type[StoreError], str]:
    for length in (5, 3, 2):
        if error := ERRORS_BY_SQLSTATE.get(code[:length]):
            return error
    return StoreError, f"the database refused a statement ({code})"
