"""A file replaced atomically as a whole, and locked against other processes."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from contextlib import suppress
from typing import Final

from holdfast.kernel.errors import ConfigError, HoldfastError

NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
MAX_LOCK_ATTEMPTS: Final = 100


class NotSaved(HoldfastError):
    """A save failed. The previous content is intact."""


class LockedFile:
    """A file locked by this process. The lock is on the file itself; a replacement is locked before
    it is renamed, so the path never names an unlocked file.
    """

    def __init__(self, path: str) -> None:
        """Open and lock. Raises `ConfigError` if the file is unusable or in use."""
        self.path = os.path.realpath(path)  # the target of a link is replaced, not the link
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
        """Check now that files can be created, and not after the first answer."""
        directory = os.path.dirname(self.path)
        if not os.access(directory, os.W_OK | os.X_OK):
            raise ConfigError(
                f"{self.path} cannot be saved: {directory} is not writable. "
                "Name a file in a directory you can write to"
            )

    def replace(self, content: bytes) -> None:
        """Replace the content durably: completely, or not at all."""
        temporary = os.path.join(
            os.path.dirname(self.path), f".{os.path.basename(self.path)}.unfinished"
        )
        try:
            descriptor = self._written(temporary, content)
            old, self._descriptor, self._new = self._descriptor, descriptor, False
            os.close(old)
            _keep_names(os.path.dirname(self.path))
        except OSError as error:
            cure = "Free some space" if error.errno in NO_SPACE else "Fix that"
            raise NotSaved(
                f"{self.path} was not saved: {error.strerror}. The previous content is "
                f"intact. {cure}, then run again to continue from it"
            ) from error

    def _written(self, temporary: str, content: bytes) -> int:
        """Write the new file and rename it over the old one; returns its descriptor."""
        with suppress(FileNotFoundError):
            os.unlink(temporary)  # left by a killed process
        descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            _lock(descriptor)
            self._keep_rights(descriptor)
            with open(descriptor, "wb", closefd=False) as writer:
                writer.write(content)
            os.fsync(descriptor)
            os.replace(temporary, self.path)
        except BaseException:
            os.close(descriptor)
            with suppress(OSError):
                os.unlink(temporary)
            raise
        return descriptor

    def _keep_rights(self, descriptor: int) -> None:
        """Give the new file the owner and the mode of the old one.

        They are set on the descriptor: its name may have become a link to another file.
        """
        try:
            before, now = os.stat(self.path), os.fstat(descriptor)
        except FileNotFoundError:  # removed meanwhile
            return
        if (before.st_uid, before.st_gid) != (now.st_uid, now.st_gid):
            with suppress(PermissionError):
                os.fchown(descriptor, before.st_uid, before.st_gid)
        os.fchmod(descriptor, stat.S_IMODE(before.st_mode))

    def close(self) -> None:
        """Release the file, and remove it if we created it and wrote nothing."""
        if self._descriptor < 0:
            return
        if self._new and _is_at(self.path, self._descriptor):
            with suppress(OSError):
                os.unlink(self.path)
        os.close(self._descriptor)
        self._descriptor = -1


def _locked(path: str) -> tuple[int, bool]:
    """A descriptor of the file, locked, and whether the file is new."""
    for _ in range(MAX_LOCK_ATTEMPTS):
        try:
            descriptor, new = _opened(path)
        except FileExistsError:  # created between two attempts
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
    # Do not block on a pipe or a terminal named by mistake.
    flags = os.O_RDWR | os.O_NONBLOCK | os.O_NOCTTY
    try:
        return os.open(path, flags), False
    except FileNotFoundError:
        return os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o600), True


def _lock(descriptor: int) -> None:
    """Lock a file for as long as it is open. Raises `BlockingIOError` if it is locked."""
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
    """Flush a directory, so that renames survive a power failure."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # not supported by the file system
            raise
    finally:
        os.close(descriptor)


def _cannot_open(path: str, real: str, error: OSError) -> str:
    directory = os.path.dirname(real)
    match error:
        case BlockingIOError():
            return f"{path} is in use by another run: wait until it ends, or name another file"
        case IsADirectoryError():
            return f"{path} is a directory: name a file in it"
        case FileNotFoundError() | NotADirectoryError():
            return f"the directory {directory} does not exist. Create it first"
        case PermissionError():
            return f"{path} is not readable and writable for you: fix that, or name another"
        case _:
            return f"{path} cannot be opened: {error.strerror}"
