"""A SQLite file: its checks, its lock, its connections and its write-ahead log."""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import os
import stat
from collections.abc import Mapping
from shlex import quote as quoted
from typing import Any, Final
from urllib.parse import quote

import apsw

from holdfast.store.database import CannotOpen, InUse, NotWritable
from holdfast.store.sqlite.replaced_file import FileWatch, describe, lock_log, save_copy

LOG: Final = logging.getLogger("holdfast")

MEMORY: Final = ":memory:"
READER_COUNT: Final = 3
BUSY_TIMEOUT_MS: Final = 250
"""Milliseconds to wait for another program, such as a backup, that has the file locked."""
CACHED_STATEMENTS: Final = 500
"""Number of prepared statements that a connection caches: more than Holdfast has."""
OPEN_FLAGS: Final = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK
"""Flags for opening files next to the database: refuse a link, do not wait for a pipe."""
WAL_PAGES: Final = 1_000
"""Number of pages in the log after which it is moved into the file."""
WAL_SIZE_LIMIT: Final = 64 * 1024 * 1024
"""Size in bytes to which the log is truncated after a burst has made it larger."""
MIN_FREE_BYTES: Final = 1024 * 1024
"""Bytes that must be free on the disk for a database to count as writable."""


FIXED_RELEASES: Final[Mapping[tuple[int, ...], tuple[int, ...]]] = {
    (3, 44): (3, 44, 6),
    (3, 50): (3, 50, 7),
}
"""First releases with the fix in older release lines of SQLite; see `check_version`."""


class DatabaseFile:
    """The connections to a database file, and the lock that excludes other writers."""

    exclusive = True
    log_is_long = False
    """Whether it is time for `shorten_log`."""
    _watch: FileWatch | None = None
    """Watches the files; None for a database in memory, and for a read-only one."""
    _replaced_name: str | None = None
    """The file that was found deleted or replaced at the last write."""
    _handled_name: str | None = None
    """The deleted or replaced file that `catch_up` has handled."""
    _save_attempted = False
    """Whether saving the content of a deleted database was attempted."""
    _copy: str | None = None
    """Path of the file with the saved content."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._lock = None if path == MEMORY else _lock(path)
        self._open: list[apsw.Connection] = []
        try:
            if path != MEMORY:
                _refuse_locked_log(path)
                _make_private(path)
            self.writer = self._connect(apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE)
            _prepare(self.writer, path)
            # Instead of SQLite's automatic checkpoint, which delays an arbitrary commit.
            self.writer.set_wal_hook(self._on_commit)
            count = 0 if path == MEMORY else READER_COUNT
            self.readers = [self._connect(apsw.SQLITE_OPEN_READONLY) for _ in range(count)]
            """Read-only connections; none in memory, where only one connection has the data."""
            for connection in self.readers:
                # Opens the log by its name, which may mean another file later.
                _read_schema(connection)
            self._watch = None if path == MEMORY else FileWatch(path)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the connections. The last one, the writer, merges the log and deletes it."""
        try:
            for connection in reversed(self._open[1:]):
                connection.close()
            self.save_deleted()
            for connection in self._open[:1]:
                connection.close()
        finally:
            if self._watch is not None:
                self._watch.close()
                self._watch = None
            if self._lock is not None:
                os.close(self._lock)
                self._lock = None

    def check_replaced(self) -> None:
        """Raise `NotWritable` if the files were deleted or replaced. Called before each write."""
        if self._watch is None or (self._replaced_name is None and not self._watch.is_due()):
            return
        name = self._watch.replaced()
        if name != self._replaced_name:
            self._replaced_name = name
            if name is None:
                LOG.warning("the files of %s are back: writes are accepted again", self.path)
            else:
                LOG.error("%s", describe(name, self.path))
        if name is not None:
            raise NotWritable(describe(name, self.path, self._copy))

    def check_writable(self) -> None:
        """Raise `NotWritable` if a write would fail now. May be called on any thread."""
        if self._watch is None:
            return
        if (name := self._watch.replaced()) is not None:
            raise NotWritable(describe(name, self.path, self._copy))
        disk = os.statvfs(os.path.dirname(self.path))
        if disk.f_blocks and disk.f_bavail * disk.f_frsize < MIN_FREE_BYTES:
            raise NotWritable(f"the disk of {self.path} is full: free some space")

    @property
    def needs_catch_up(self) -> bool:
        """Whether `catch_up` has work to do."""
        return self.log_is_long or self._replaced_name != self._handled_name

    def catch_up(self) -> None:
        """Do long work that no transaction depends on."""
        self._handled_name = self._replaced_name
        if self._replaced_name is None:
            self.shorten_log()
        else:
            self.save_deleted()

    def save_deleted(self) -> None:
        """Save the content of a database whose file was deleted, once, and empty its log."""
        if self._watch is None or self._watch.replaced() is None:
            return
        # If the file was only moved, its content is still on the disk.
        if not self._save_attempted and self._watch.is_deleted():
            self._save_attempted = True
            self._save_copy()
        self._empty_log()

    def _save_copy(self) -> None:
        try:
            self._copy = save_copy(self.writer, self.path)
        except (apsw.Error, OSError) as error:
            LOG.error("%s was deleted and its content could not be saved: %s", self.path, error)
        else:
            LOG.error(
                "%s was deleted: everything this process had committed is saved in %s; "
                "stop this process and move that file to %s to continue with it",
                *(self.path, self._copy, self.path),
            )

    def _empty_log(self) -> None:
        """Move the log into the open file, wherever that is now.

        SQLite would apply a log that is left to the next file at this path, and corrupt that file.
        """
        try:
            self.writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except apsw.Error as error:
            LOG.warning(
                "%s-wal could not be emptied (%s): once this process has stopped, delete it before "
                "another database is put at %s",
                *(self.path, error, self.path),
            )

    def shorten_log(self) -> None:
        """Move the part of the log that no reader needs into the file."""
        self.log_is_long = False
        try:
            self._checkpoint()
        except apsw.Error as error:  # the commits are safe in the log
            LOG.warning("%s: the log was not moved into the file: %s", self.path, error)

    def _checkpoint(self) -> None:
        self.writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)

    def _on_commit(self, _connection: apsw.Connection, _name: str, pages: int) -> int:
        self.log_is_long = pages >= WAL_PAGES
        return apsw.SQLITE_OK

    def _connect(self, flags: int, name: str | None = None) -> apsw.Connection:
        connection = apsw.Connection(
            name or self.path, flags=flags, statementcachesize=CACHED_STATEMENTS
        )
        self._open.append(connection)
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        connection.convert_binding = _as_json
        # A name in double quotes that does not exist is an error, as it is on PostgreSQL.
        connection.config(apsw.SQLITE_DBCONFIG_DQS_DML, 0)
        connection.config(apsw.SQLITE_DBCONFIG_DQS_DDL, 0)
        connection.pragma("mmap_size", 0)
        return connection


class ReadOnlyFile(DatabaseFile):
    """Connections to a file that another process may be writing."""

    exclusive = False

    def __init__(self, path: str) -> None:
        self.path = path
        self._lock = None
        self._open: list[apsw.Connection] = []
        flags, name = apsw.SQLITE_OPEN_READONLY, path
        if _is_read_only_copy(path):
            flags, name = flags | apsw.SQLITE_OPEN_URI, f"file:{quote(path)}?immutable=1"
        try:
            self.writer, *self.readers = [self._connect(flags, name) for _ in range(3)]
            _read_schema(self.writer)
        except BaseException:
            self.close()
            raise


def open_file(path: str | os.PathLike[str], version: str, *, writes: bool = True) -> DatabaseFile:
    """Open a file as its only writer, or read-only, also while another process writes to it.

    `version` is the version of SQLite.
    """
    check_version(version)
    name = os.fspath(path)
    full = name if name == MEMORY else (_writable_path if writes else _readable_path)(name)
    try:
        return DatabaseFile(full) if writes else ReadOnlyFile(full)
    except OSError as error:
        raise CannotOpen(f"{full} cannot be created: {error.strerror}") from error
    except apsw.Error as error:
        why = _CANNOT_OPEN.get(type(error), "SQLite cannot open it")
        raise CannotOpen(f"{full}: {why} (SQLite says: {error})") from error


def check_version(version: str) -> None:
    """Raise `CannotOpen` for a version of SQLite that can lose committed data.

    Before 3.51.3, data was lost when one connection restarted the log while another moved it into
    the file. Two older release lines were fixed, too.
    """
    number = tuple(int(part) for part in version.split(".")[:3])
    required = FIXED_RELEASES.get(number[:2], (3, 51, 3))
    if number < required:
        raise CannotOpen(
            f"SQLite {version} can damage a database that is written and read at once: "
            "install an apsw that brings SQLite 3.51.3 or later"
        )


def _writable_path(name: str) -> str:
    """Return the real path of a file that can be opened for writing."""
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


def _readable_path(name: str) -> str:
    full = os.path.realpath(name)
    if not os.path.isfile(full):
        why = "is not a regular file" if os.path.exists(full) else "does not exist"
        raise CannotOpen(f"{full} {why}: name another file, or make it with `holdfast migrate`")
    if not _may(full, os.R_OK):
        raise CannotOpen(f"{full} may not be read: change its permissions, or name another file")
    return full


def _is_read_only_copy(path: str) -> bool:
    """Return whether no process can write to the file: it has no log and a read-only directory.

    SQLite reads such a file only as `immutable`.
    """
    return not os.path.exists(f"{path}-wal") and not _may(os.path.dirname(path), os.W_OK)


def _may(path: str, mode: int) -> bool:
    return os.access(path, mode, effective_ids=os.access in os.supports_effective_ids)


def _make_private(path: str) -> None:
    """Create the file if it is missing, readable by its owner only.

    SQLite would let every user read it, and gives its other files the permissions of this one.
    Raises `CannotOpen` for a file that every user can write to.
    """
    descriptor = os.open(path, OPEN_FLAGS | os.O_CREAT, 0o600)
    try:
        mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
    finally:
        os.close(descriptor)
    if mode & stat.S_IWOTH:
        raise CannotOpen(
            f"{path} can be changed by every user of this machine (mode {mode:03o}): check that "
            f"nothing was changed, then run `chmod 600 {quoted(path)}`"
        )
    if mode & (stat.S_IWGRP | stat.S_IROTH):
        LOG.warning(
            "%s is open to other users (mode %03o): run `chmod 600 %s` unless that is meant",
            path,
            mode,
            quoted(path),
        )


def _lock(path: str) -> int:
    """Lock the database for this process, and return the descriptor that holds the lock.

    The lock is on a separate file, because closing any descriptor of the database would release
    SQLite's own locks. The file is never deleted, because another process may just have locked it.
    """
    try:
        descriptor = os.open(f"{path}.lock", OPEN_FLAGS | os.O_CREAT, 0o600)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise CannotOpen(_not_a_lock(path, "a link")) from None
        raise CannotOpen(
            f"{path}.lock cannot be opened ({error.strerror}): change its permissions, "
            "or delete it when no program uses the database"
        ) from error
    try:
        _refuse_other_file(path, os.fstat(descriptor))
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
    except BlockingIOError:
        holder = os.pread(descriptor, 20, 0).decode("ascii", "replace")
        os.close(descriptor)
        raise InUse(f"{path} is open in {_describe_holder(holder)}") from None
    except OSError as error:
        os.close(descriptor)
        raise CannotOpen(
            f"{path} cannot be locked ({error.strerror}): put it on a local disk"
        ) from error
    except CannotOpen:
        os.close(descriptor)
        raise
    return descriptor


def _refuse_other_file(path: str, status: os.stat_result) -> None:
    """Raise `CannotOpen` for a lock file that is a link: the linked file would be overwritten."""
    if not stat.S_ISREG(status.st_mode):
        raise CannotOpen(_not_a_lock(path, "not a regular file"))
    if status.st_nlink > 1:
        raise CannotOpen(_not_a_lock(path, "a hard link to another file"))


def _not_a_lock(path: str, kind: str) -> str:
    return f"{path}.lock is {kind}, which Holdfast did not make: remove it"


def _refuse_locked_log(path: str) -> None:
    """Raise `InUse` for a locked log, before the database is opened.

    The lock file alone does not suffice: an earlier one may have been deleted.
    """
    if (descriptor := lock_log(path)) is not None:
        os.close(descriptor)


def _describe_holder(holder: str) -> str:
    if holder == str(os.getpid()):
        return "this process already: use the open database"
    return (
        f"another process ({holder or 'unknown'}), and SQLite allows only one: "
        "stop that process, or use PostgreSQL"
    )


def _prepare(writer: apsw.Connection, path: str) -> None:
    mode = writer.pragma("journal_mode", "WAL")
    if path != MEMORY and mode != "wal":
        raise CannotOpen(f"{path} cannot have a log next to it ({mode}): put it on a local disk")
    writer.pragma("synchronous", "FULL")  # a power cut loses nothing that was acknowledged
    writer.pragma("foreign_keys", True)
    writer.pragma("journal_size_limit", WAL_SIZE_LIMIT)
    _read_schema(writer)


def _read_schema(connection: apsw.Connection) -> None:
    """Read the schema, so that damage is found when opening and not later."""
    connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()


def _as_json(cursor: apsw.Cursor, number: int, value: Any) -> str:
    """Bind a list as JSON, so that `Dialect.one_of` can read it."""
    if isinstance(value, list | tuple):
        return json.dumps(value)
    raise TypeError(f"cannot store a {type(value).__name__} (parameter {number})")


_CANNOT_OPEN: Final[Mapping[type[Exception], str]] = {
    apsw.NotADBError: "this is not a SQLite database, or it is damaged: name another file",
    apsw.CorruptError: "the database is damaged: restore it from a backup",
    apsw.ReadOnlyError: "it may not be written: change its permissions, or name another file",
    apsw.BusyError: "another program has it locked: close that program",
    apsw.FullError: "the disk is full: free some space",
    apsw.IOError: "the disk cannot be read or written: check it",
    apsw.CantOpenError: "it cannot be opened: check its permissions and those of its directory",
}
