"""Translation of PostgreSQL's and asyncpg's errors to errors of the store. The only such place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from asyncpg import DataError, InterfaceError, PostgresError
from asyncpg.exceptions import InternalClientError

from holdfast.store.database import NotWritable, StoreError, Unavailable, Violation


class Lost(Unavailable):
    """The connection was lost. Before COMMIT was sent, nothing was changed."""


class Busy(Unavailable):
    """A conflict with other transactions. Running it again may succeed."""


REFUSALS: Final[Mapping[str, tuple[type[StoreError], str]]] = {
    "08": (Lost, "the connection to the database was lost"),
    "22": (Violation, "the database cannot hold this value"),
    "23": (Violation, ""),
    "25006": (NotWritable, "the database is read-only: is this a standby server?"),
    "25P03": (Lost, "the transaction was idle for too long"),
    "3F000": (Unavailable, "the user of the database may not use its schema: grant it"),
    "40": (Busy, "the transaction conflicted with another"),
    "42501": (NotWritable, "the user of the database lacks a permission: grant it"),
    "53100": (NotWritable, "the disk of the database is full: make room on it"),
    "53200": (Unavailable, "the database is out of memory"),
    "53300": (Unavailable, "the database has too many connections: raise its max_connections"),
    "53": (Unavailable, "the database is out of resources"),
    "55P03": (Busy, "a row was locked by others for too long"),
    "57014": (Unavailable, "the statement took too long and was stopped"),
    "57P": (Lost, "the database is shutting down or starting up"),
    "58": (NotWritable, "the database cannot read or write its files"),
    "HF001": (Violation, ""),
    "P0001": (Violation, ""),
}
"""Error and text by SQLSTATE or its prefix, longest first. The server's own text follows."""


def refusal(error: Exception, *, closed: bool) -> Exception:
    """Convert the error of a statement; `closed`: the connection did not survive it.

    An error that is not the database's is returned unchanged.
    """
    if isinstance(error, PostgresError):
        kind, sentence = _look_up(getattr(error, "sqlstate", None) or "")
        if closed and not issubclass(kind, Lost):
            kind = Lost
        said = str(error.args[0] if error.args else error)
        return kind(f"{sentence}: {said}" if sentence else said)
    if isinstance(error, DataError):
        return Violation(f"the database cannot hold this value: {error}")
    if isinstance(error, TimeoutError):
        return Lost("the database did not answer in time")
    if closed or isinstance(error, (OSError, InternalClientError)):
        return Lost(f"the connection to the database was lost: {error}")
    if isinstance(error, InterfaceError):
        return StoreError(str(error))
    return error


def _look_up(code: str) -> tuple[type[StoreError], str]:
    for length in (5, 3, 2):
        if found := REFUSALS.get(code[:length]):
            return found
    return StoreError, f"the database refused a statement ({code})"
