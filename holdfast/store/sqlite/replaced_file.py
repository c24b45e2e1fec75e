"""Detects whether the files of an open database were deleted or replaced.

SQLite keeps writing to a file that was deleted or replaced, and everything written is lost when the
process ends. Therefore every write transaction checks whether the open files still have a name, and
once per second whether they are still the files at their path.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, TypeAlias

import apsw

from holdfast.store.database import InUse

FileId: TypeAlias = tuple[int, int]
"""Device and inode."""

FILE_SUFFIXES: Final = (".lock", "-wal", "-shm")
"""Suffixes of the other files of an open database."""
COMPARE_INTERVAL: Final = 1.0
"""Seconds between two comparisons of all files, which take longer than a small write."""


class FileWatch:
    """The identity of the files of one database, and a lock on its log.

    Created after SQLite has opened the database: the log exists from then on, and keeps its inode
    until the last connection is closed.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._opened: Mapping[str, FileId | None] = {
            name: _identity(name) for name in (path, *(path + suffix for suffix in FILE_SUFFIXES))
        }
        # A second lock, for the case that the lock file was deleted. Not on the database or the
        # -shm file: closing any descriptor of these would end SQLite's own locks on them.
        self._log = lock_log(path)
        self._database = os.open(path, os.O_RDONLY)
        self._compare_at = 0.0

    def close(self) -> None:
        """Close the files. Call it after the last connection was closed."""
        os.close(self._database)
        if self._log is not None:
            os.close(self._log)

    def is_due(self) -> bool:
        """Return whether to call `replaced` before a write. Cheap.

        A moved file keeps the data written to it, so only a file without a name is urgent.
        """
        now = time.monotonic()
        if now >= self._compare_at:
            self._compare_at = now + COMPARE_INTERVAL
            return True
        return self.is_deleted() or (self._log is not None and not os.fstat(self._log).st_nlink)

    def replaced(self) -> str | None:
        """Return the name of the first file that was deleted or replaced, or None."""
        for name, opened_id in self._opened.items():
            if _identity(name) != opened_id:
                return name
        return None

    def is_deleted(self) -> bool:
        """Return whether the open database has no name: its content is lost with the process."""
        return os.fstat(self._database).st_nlink == 0


def lock_log(path: str) -> int | None:
    """Lock the log of a database, so that no second process writes to it; None without a log.

    Raises `InUse` when another process has it.
    """
    try:
        flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK
        descriptor = os.open(f"{path}-wal", flags)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise InUse(
            f"{path} is open in another process, whose lock file was deleted: stop that one"
        ) from None
    except OSError:  # a file system without locks: the lock file was refused there already
        os.close(descriptor)
        return None
    return descriptor


def describe(name: str, path: str, copy: str | None = None) -> str:
    """Describe a deleted or replaced file, and what to do. `copy` is the saved content."""
    if name == path:
        remedy = f"move {copy} there" if copy else "put the right file there"
        return (
            f"{path} was deleted or replaced while this process had it open, so nothing is written "
            f"any more: stop this process, {remedy} and start again"
        )
    return (
        f"{name} was deleted or replaced while {path} was open, so nothing is written any more: "
        "restart this process"
    )


def save_copy(connection: apsw.Connection, path: str) -> str:
    """Write the committed content of a database to a new file next to `path`; returns its name."""
    name = f"{path}.saved-{os.getpid()}"
    os.close(os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600))
    try:
        copy = apsw.Connection(name)
        try:
            with copy.backup("main", connection, "main") as backup:
                while not backup.done:
                    backup.step(-1)
        finally:
            copy.close()
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise
    return name


def _identity(name: str) -> FileId | None:
    try:
        status = os.stat(name)
    except OSError:
        return None
    return status.st_dev, status.st_ino
