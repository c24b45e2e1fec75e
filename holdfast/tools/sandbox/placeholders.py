"""Empty files at paths that must be covered but do not exist.

Only a file that exists can be mounted over. It is removed after the last command that relies on it:
when a file is removed, its mounts in every sandbox are removed too.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from msgspec import Struct

from holdfast.tools.workspace.openat import O_PATH, opener

FileKey = tuple[int, int]
"""Device and inode."""

_LOCK: Final = threading.Lock()
_USERS: Final[dict[FileKey, int]] = {}
"""Number of commands of this process that rely on each placeholder."""


class Placeholder(Struct, frozen=True):
    """An empty file of ours, by its path in the directory."""

    path: str
    file: FileKey


@contextmanager
def held(top: int, paths: Iterable[str]) -> Iterator[None]:
    """Have a file or directory at each of the paths in an open directory, where that is possible.

    Not for a path whose parent directory does not exist, and not for a symbolic link.
    """
    with _LOCK:
        found = [each for path in paths if (each := _created(top, path) or _shared(top, path))]
        for placeholder in found:
            _USERS[placeholder.file] = _USERS.get(placeholder.file, 0) + 1
    try:
        yield
    finally:
        with _LOCK:
            for placeholder in found:
                _release(top, placeholder)


def _created(top: int, path: str) -> Placeholder | None:
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW
    try:
        number = opener()(top, path, flags, 0o600)
    except OSError:
        return None
    try:
        return Placeholder(path, _key(os.fstat(number)))
    finally:
        os.close(number)


def _shared(top: int, path: str) -> Placeholder | None:
    """A placeholder that another command has created."""
    try:
        number = opener()(top, path, O_PATH | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        file = _key(os.fstat(number))
    finally:
        os.close(number)
    return Placeholder(path, file) if file in _USERS else None


def _release(top: int, placeholder: Placeholder) -> None:
    _USERS[placeholder.file] -= 1
    if not _USERS[placeholder.file]:
        del _USERS[placeholder.file]
        with suppress(OSError):
            _remove(top, placeholder)


def _remove(top: int, placeholder: Placeholder) -> None:
    """Remove the file, unless it was replaced or written to from outside."""
    parent, name = os.path.split(placeholder.path)
    folder = opener()(top, parent or ".", O_PATH | os.O_DIRECTORY)
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if _key(found) == placeholder.file and not found.st_size:
            os.unlink(name, dir_fd=folder)
    finally:
        os.close(folder)


def _key(found: os.stat_result) -> FileKey:
    return found.st_dev, found.st_ino
