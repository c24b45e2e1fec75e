"""Opening a SQLite file: what is refused and why, the lock, and how a connection is set up."""

from __future__ import annotations

import fcntl
import json
import logging
import os
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

import apsw

from holdfast.store.database import CannotOpen, InUse

LOG: Final = logging.getLogger("holdfast")

MEMORY: Final = ":memory:"
READERS: Final = 3
BUSY: Final = 250
"""Milliseconds to wait for another program, such as a backup, that has the file locked."""
STATEMENTS: Final = 500
"""Prepared statements that a connection keeps: more than there are in holdfast."""
WAL_PAGES: Final = 1_000
"""So long may the log be before it is moved into the file."""
WAL_LEFT: Final = 64 * 1024 * 1024
"""Bytes to which the log is cut when a burst has made it larger."""


MENDED: Final[Mapping[tuple[int, ...], tuple[int, ...]]] = {
    (3, 44): (3, 44, 6),
    (3, 50): (3, 50, 7),
}
"""The first sound releases of older lines of SQLite, see `check_version`."""


class File:
    """The connections to a database file, and the lock that keeps other writers out."""

    exclusive = True
    log_is_long = False
    """Whether it is time for `shorten_log`."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._lock = None if path == MEMORY else _lock(path)
        self._open: list[apsw.Connection] = []
        try:
            if path != MEMORY:
                # SQLite would let everybody read it; what it makes beside it is as readable as it.
                os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            self.writer = self._connect(apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE)
            _prepare(self.writer, path)
            # Instead of SQLite's own way, by which some commit or other takes that much longer.
            self.writer.set_wal_hook(self._committed)
            count = 0 if path == MEMORY else READERS
            self.readers = [self._connect(apsw.SQLITE_OPEN_READONLY) for _ in range(count)]
            """None of a database in memory: only the connection that made it can see it."""
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """The writer is the last: it then moves the log into the file and deletes it."""
        try:
            for connection in reversed(self._open):
                connection.close()
        finally:
            if self._lock is not None:
                os.close(self._lock)
                self._lock = None

    def shorten_log(self) -> None:
        """Move what readers no longer need from the log into the file, as far as that goes."""
        self.log_is_long = False
        try:
            self._checkpoint()
        except apsw.Error as error:  # what is committed is safe in the log
            LOG.warning("%s: the log was not moved into the file: %s", self.path, error)

    def _checkpoint(self) -> None:
        self.writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)

    def _committed(self, _connection: apsw.Connection, _name: str, pages: int) -> int:
        self.log_is_long = pages >= WAL_PAGES
        return apsw.SQLITE_OK

    def _connect(self, flags: int, name: str | None = None) -> apsw.Connection:
        connection = apsw.Connection(name or self.path, flags=flags, statementcachesize=STATEMENTS)
        self._open.append(connection)
        connection.set_busy_timeout(BUSY)
        connection.convert_binding = _as_json
        # A name in double quotes that does not exist is an error, as it is on PostgreSQL.
        connection.config(apsw.SQLITE_DBCONFIG_DQS_DML, 0)
        connection.config(apsw.SQLITE_DBCONFIG_DQS_DDL, 0)
        connection.pragma("mmap_size", 0)
        return connection


class FileToRead(File):
    """Connections to a file that another process may be writing."""

    exclusive = False

    def __init__(self, path: str) -> None:
        self.path = path
        self._lock = None
        self._open: list[apsw.Connection] = []
        flags, name = apsw.SQLITE_OPEN_READONLY, path
        if _is_put_away(path):
            flags, name = flags | apsw.SQLITE_OPEN_URI, f"file:{quote(path)}?immutable=1"
        try:
            self.writer, *self.readers = [self._connect(flags, name) for _ in range(3)]
            _look(self.writer)
        except BaseException:
            self.close()
            raise


def open_file(path: str | os.PathLike[str], version: str, *, writes: bool = True) -> File:
    """Open a file for writing, as the only process that does, or to read it beside that one.

    `version` is SQLite's.
    """
    check_version(version)
    name = os.fspath(path)
    full = name if name == MEMORY else (_usable if writes else _readable)(name)
    try:
        return File(full) if writes else FileToRead(full)
    except OSError as error:
        raise CannotOpen(f"{full} cannot be made: {error.strerror}") from error
    except apsw.Error as error:
        why = _CANNOT_OPEN.get(type(error), "SQLite cannot open it")
        raise CannotOpen(f"{full}: {why} (SQLite says: {error})") from error


def check_version(version: str) -> None:
    """Refuse a SQLite that can lose committed data: before 3.51.3 two connections could, when one
    restarted the log while the other moved it into the file. Two older lines were mended too."""
    number = tuple(int(part) for part in version.split(".")[:3])
    line = MENDED.get(number[:2], (3, 51, 3))
    if number < line:
        raise CannotOpen(
            f"SQLite {version} can damage a database that is written and read at once: "
            "install an apsw that brings SQLite 3.51.3 or later"
        )


def _usable(name: str) -> str:
    """The one name of a file, whatever links lead to it, when it may be opened and written."""
    if not name:
        raise CannotOpen("the database has no name: give a file, such as chats.db")
    # Two processes that use two names of a file must still meet at one lock.
    full = os.path.realpath(name)
    directory = os.path.dirname(full)
    if os.path.isdir(full):
        why = f"is a directory: name a file in it, such as {os.path.join(full, 'chats.db')}"
    elif not os.path.isdir(directory):
        why = f"cannot be made, there is no directory {directory}: make it, or name another file"
    elif os.path.exists(full) and not os.path.isfile(full):
        why = "is not a regular file: name another"
    elif os.path.exists(full) and not _may(full, os.R_OK | os.W_OK):
        why = "may not be written: change its permissions, or name another file"
    elif not _may(directory, os.W_OK | os.X_OK):
        why = (
            f"needs files beside it, and {directory} may not be written: "
            "change its permissions, or name a file elsewhere"
        )
    else:
        return full
    raise CannotOpen(f"{full} {why}")


def _readable(name: str) -> str:
    full = os.path.realpath(name)
    if not os.path.isfile(full):
        why = "is not a regular file" if os.path.exists(full) else "does not exist"
        raise CannotOpen(f"{full} {why}: name another file, or make it with `holdfast migrate`")
    if not _may(full, os.R_OK):
        raise CannotOpen(f"{full} may not be read: change its permissions, or name another file")
    return full


def _is_put_away(path: str) -> bool:
    """Whether nobody can be writing it: a copy without a log, where none can be made beside it.

    SQLite reads such a file only when it is told so.
    """
    return not os.path.exists(f"{path}-wal") and not _may(os.path.dirname(path), os.W_OK)


def _may(path: str, mode: int) -> bool:
    return os.access(path, mode, effective_ids=os.access in os.supports_effective_ids)


def _lock(path: str) -> int:
    """Keep every other writer out for as long as the descriptor is open: it dies with the process.

    A file of its own, because closing any descriptor of the database would end SQLite's own locks.
    It is left behind: whoever deletes it could delete one that has just been locked by another.
    """
    try:
        descriptor = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise CannotOpen(
            f"{path}.lock cannot be opened ({error.strerror}): change its permissions, "
            "or delete it when nobody uses the database"
        ) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
    except BlockingIOError:
        holder = os.pread(descriptor, 20, 0).decode("ascii", "replace")
        os.close(descriptor)
        raise InUse(f"{path} is open in {_who(holder)}") from None
    except OSError as error:
        os.close(descriptor)
        raise CannotOpen(
            f"{path} cannot be locked ({error.strerror}): put it on a local disk"
        ) from error
    return descriptor


def _who(holder: str) -> str:
    if holder == str(os.getpid()):
        return "this process already: use the one that is open"
    return (
        f"another process ({holder or 'unknown'}), and SQLite serves one at a time: "
        "stop that one, or use PostgreSQL for more than one"
    )


def _prepare(writer: apsw.Connection, path: str) -> None:
    mode = writer.pragma("journal_mode", "WAL")
    if path != MEMORY and mode != "wal":
        raise CannotOpen(f"{path} cannot have a log beside it ({mode}): put it on a local disk")
    writer.pragma("synchronous", "FULL")  # a power cut loses nothing that was acknowledged
    writer.pragma("foreign_keys", True)
    writer.pragma("journal_size_limit", WAL_LEFT)
    _look(writer)


def _look(connection: apsw.Connection) -> None:
    """Read something: damage shows here, and not later."""
    connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()


def _as_json(cursor: apsw.Cursor, number: int, value: Any) -> str:
    """How a list is bound, so that `Dialect.one_of` can look into it."""
    if isinstance(value, list | tuple):
        return json.dumps(value)
    raise TypeError(f"cannot store a {type(value).__name__} (parameter {number})")


_CANNOT_OPEN: Final[Mapping[type[Exception], str]] = {
    apsw.NotADBError: "this is no SQLite database, or a damaged one: name another file",
    apsw.CorruptError: "the database is damaged: restore it from a backup",
    apsw.ReadOnlyError: "it may not be written: change its permissions, or name another file",
    apsw.BusyError: "another program has it locked: close that program",
    apsw.FullError: "the disk is full: free some space",
    apsw.IOError: "the disk cannot be read or written: check it",
    apsw.CantOpenError: "it cannot be opened: check its permissions and those of its directory",
}
