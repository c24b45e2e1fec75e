"""Replaces a file in an open directory atomically: all of the new bytes, or all of the old.

Files are identified by a descriptor of their directory and a name in it, so changes of the path
meanwhile do not matter. All functions raise OSError, and have then changed nothing.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from typing import Final

from holdfast.tools.workspace.errors import PathError

NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY
_AS_IT_IS: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_CHUNK: Final = 1 << 20


def version(data: bytes) -> str:
    """Version of a content. Starts with the size, so most changes are detected without reading."""
    from hashlib import blake2b

    return f"{len(data)}-{blake2b(data, digest_size=16).hexdigest()}"


def read(descriptor: int, limit: int) -> bytes:
    """Read to the end, at most `limit` bytes."""
    parts: list[bytes] = []
    while limit and (part := os.read(descriptor, min(limit, _CHUNK))):
        parts.append(part)
        limit -= len(part)
    return b"".join(parts)


def refuse_special(found: os.stat_result) -> None:
    """Refuse anything but regular files and directories."""
    mode = found.st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        kind = "FIFO" if stat.S_ISFIFO(mode) else "socket" if stat.S_ISSOCK(mode) else "device"
        raise PathError(f"is not a regular file: it is a {kind}", errno.ENODEV)


def replaceable(folder: int, name: str) -> os.stat_result | None:
    """The status of the file to replace; None for a new one. Refuses anything but a plain file."""
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(found.st_mode):
        raise PathError("is a directory: name a file in it", errno.EISDIR)
    if stat.S_ISLNK(found.st_mode):  # it was not a link a moment ago
        raise OSError(errno.EAGAIN, "became a link")
    refuse_special(found)
    if found.st_nlink > 1:
        raise PathError(
            f"has {found.st_nlink} names (hard links), and only this one would get the new "
            "content: remove this name first, or write to another",
            errno.EMLINK,
        )
    # Replacing a file needs no write permission, but a read-only file is meant to stay as it is.
    try:
        os.close(os.open(name, os.O_WRONLY | _AS_IT_IS, dir_fd=folder))
    except OSError as error:
        if error.errno != errno.ETXTBSY:  # a running program keeps its old bytes
            raise
    return found


def written(folder: int, data: bytes, old: os.stat_result | None) -> str:
    """Write a new file next to the old one, flushed to disk; returns its name."""
    name = f".{os.urandom(12).hex()}.tmp"
    # Until it has the mode of the old file, no other user may read it.
    descriptor = os.open(name, NEW, 0o666 if old is None else 0o600, dir_fd=folder)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest[:_CHUNK]) :]
        if old is not None:
            _like(descriptor, old)
        else:
            give_to_owner(descriptor, folder)
        os.fsync(descriptor)
    except BaseException:
        remove(folder, name)
        raise
    finally:
        os.close(descriptor)
    return name


def give_to_owner(descriptor: int, folder: int) -> None:
    """As root: give a new file or directory to the owner of the directory that it is in.

    Commands of a sandbox run as that user, and could not change it otherwise.
    """
    if not os.geteuid():
        found = os.fstat(folder)
        os.fchown(descriptor, found.st_uid, found.st_gid)


def give_directory_to_owner(name: str, folder: int) -> None:
    """The same for a new directory, by its name in an open one."""
    if not os.geteuid():
        descriptor = os.open(name, _AS_IT_IS | os.O_DIRECTORY, dir_fd=folder)
        try:
            give_to_owner(descriptor, folder)
        finally:
            os.close(descriptor)


def _like(descriptor: int, old: os.stat_result) -> None:
    """Give a file the owner and group of the old one, where that is allowed, and its mode."""
    mode = old.st_mode & 0o777  # writing clears set-user-ID, and so do we
    mine = os.fstat(descriptor)
    if mine.st_uid != old.st_uid:
        with suppress(OSError):
            os.fchown(descriptor, old.st_uid, -1)
    if mine.st_gid != old.st_gid:
        try:
            os.fchown(descriptor, -1, old.st_gid)
        except OSError:
            mode = mode & 0o707 | (mode & 0o007) << 3  # those of other users
    os.fchmod(descriptor, mode)


def refuse_changed(folder: int, name: str, expected: str) -> None:
    """Refuse if a file no longer has a version (`""`: if it exists)."""
    try:
        descriptor = os.open(name, os.O_RDONLY | _AS_IT_IS, dir_fd=folder)
    except FileNotFoundError:
        if expected:
            raise PathError("was removed since it was read: list it again", errno.ESTALE) from None
        return
    try:
        if not expected:
            raise PathError("already exists: read it before you replace it", errno.EEXIST)
        size = os.fstat(descriptor).st_size
        # The size first: a huge file need not be read to see that it differs.
        if not expected.startswith(f"{size}-") or version(read(descriptor, size + 1)) != expected:
            raise PathError("was changed since it was read: read it again", errno.ESTALE)
    finally:
        os.close(descriptor)


def remove(folder: int, name: str) -> None:
    """Remove a file. Errors are ignored: the error that led here is the one to report."""
    with suppress(OSError):
        os.unlink(name, dir_fd=folder)


def sync(folder: int) -> None:
    """Make the names in a directory survive a power failure, where the system can promise that.

    Errors are ignored: the change is already visible, and a failed sync does not undo it.
    """
    with suppress(OSError):
        descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
