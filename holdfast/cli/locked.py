"""A file that is replaced as a whole, and that no two processes have at the same time."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from contextlib import suppress
from typing import Final

from holdfast.kernel.errors import ConfigError, HoldfastError

FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
TRIES: Final = 100


class NotSaved(HoldfastError):
    """A save failed. What was saved before is still there."""


class LockedFile:
    """The lock is on the file itself. Whoever replaces it has locked the new one before, so there
    is no moment at which the path names a file that nobody has locked.
    """

    def __init__(self, path: str) -> None:
        """Refuses (ConfigError) what cannot be read and replaced, and what another process has."""
        self.path = os.path.realpath(path)  # of a link: what it points to is replaced, not the link
        try:
            self._descriptor, self._new = _locked(self.path)
        except OSError as error:
            raise ConfigError(_cannot_open(path, self.path, error)) from None
        try:
            self.content = _content(path, self._descriptor)
            self._check_directory()
        except BaseException:
            self.close()
            raise

    def _check_directory(self) -> None:
        """Now, and not after the first answer."""
        directory = os.path.dirname(self.path)
        if not os.access(directory, os.W_OK | os.X_OK):
            raise ConfigError(
                f"{self.path} cannot be saved: no files can be made in {directory}. "
                "Name a file in a directory of yours"
            )

    def replace(self, content: bytes) -> None:
        """Put something else into the file: as a whole and for good, or not at all."""
        beside = os.path.join(
            os.path.dirname(self.path), f".{os.path.basename(self.path)}.unfinished"
        )
        try:
            descriptor = self._written(beside, content)
            old, self._descriptor, self._new = self._descriptor, descriptor, False
            os.close(old)
            _keep_names(os.path.dirname(self.path))
        except OSError as error:
            cure = "Free some space" if error.errno in FULL else "Set that right"
            raise NotSaved(
                f"{self.path} was not saved: {error.strerror}. What was saved before is still "
                f"there. {cure}, then run again to go on from it"
            ) from error

    def _written(self, beside: str, content: bytes) -> int:
        """The descriptor of the new file, when it has taken the place of the old."""
        with suppress(FileNotFoundError):
            os.unlink(beside)  # of somebody who was killed
        descriptor = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            _lock(descriptor)
            self._keep_rights(beside)
            with open(descriptor, "wb", closefd=False) as writer:
                writer.write(content)
            os.fsync(descriptor)
            os.replace(beside, self.path)
        except BaseException:
            os.close(descriptor)
            with suppress(OSError):
                os.unlink(beside)
            raise
        return descriptor

    def _keep_rights(self, beside: str) -> None:
        """Whoever could read the old file can read the new one, and nobody else."""
        try:
            before, now = os.stat(self.path), os.stat(beside)
        except FileNotFoundError:  # somebody removed it meanwhile
            return
        if (before.st_uid, before.st_gid) != (now.st_uid, now.st_gid):
            with suppress(PermissionError):
                os.chown(beside, before.st_uid, before.st_gid)
        os.chmod(beside, stat.S_IMODE(before.st_mode))

    def close(self) -> None:
        """Let go of it. One that we made, and never put anything into, is gone again."""
        if self._descriptor < 0:
            return
        if self._new and _is_at(self.path, self._descriptor):
            with suppress(OSError):
                os.unlink(self.path)
        os.close(self._descriptor)
        self._descriptor = -1


def _locked(path: str) -> tuple[int, bool]:
    """A descriptor of the file, locked, and whether the file is new."""
    for _ in range(TRIES):
        try:
            descriptor, new = _opened(path)
        except FileExistsError:  # somebody made it between two looks
            continue
        try:
            _lock(descriptor)
            if _is_at(path, descriptor):
                return descriptor, new
        except BaseException:
            os.close(descriptor)
            raise
        # Another process has replaced the file since it was opened.
        os.close(descriptor)
    raise BlockingIOError


def _opened(path: str) -> tuple[int, bool]:
    # A pipe or a terminal that somebody names by mistake is not waited for.
    flags = os.O_RDWR | os.O_NONBLOCK | os.O_NOCTTY
    try:
        return os.open(path, flags), False
    except FileNotFoundError:
        return os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o600), True


def _lock(descriptor: int) -> None:
    """Lock a file for as long as it is open; `BlockingIOError` when another process has it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:  # a file system without locks
        pass


def _is_at(path: str, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _content(path: str, descriptor: int) -> bytes:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise ConfigError(f"{path} is not a regular file: name another")
    try:
        with open(descriptor, "rb", closefd=False) as reader:
            return reader.read()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None


def _keep_names(directory: str) -> None:
    """Have what was renamed in a directory survive the machine too."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system that has no such thing
            raise
    finally:
        os.close(descriptor)


def _cannot_open(path: str, real: str, error: OSError) -> str:
    directory = os.path.dirname(real)
    match error:
        case BlockingIOError():
            return f"{path} is in use by another run: wait for its end, or name another file"
        case IsADirectoryError():
            return f"{path} is a directory: name a file in it"
        case FileNotFoundError() | NotADirectoryError():
            return f"{path} cannot be made: there is no directory {directory}. Make it first"
        case PermissionError():
            return f"{path} may not be read and written by you: change that, or name another file"
        case _:
            return f"{path} cannot be opened: {error.strerror}"
