"""The files that a sandboxed command sees, found and opened just before it starts."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Final, Literal

from msgspec import Struct

from holdfast.kernel.errors import ToolFailed
from holdfast.tools.sandbox.bubblewrap import BoundPath, MaskedPath, SandboxView, SystemPath
from holdfast.tools.sandbox.policy import SandboxPolicy, inside
from holdfast.tools.workspace.openat import O_PATH, opener

SYSTEM_PATHS: Final = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store"),
    # Of /etc only this: the rest has keys, password hashes and settings of services.
    *("/etc/alternatives", "/etc/gitconfig", "/etc/group", "/etc/ld.so.cache", "/etc/localtime"),
    *("/etc/mime.types", "/etc/nsswitch.conf", "/etc/os-release", "/etc/passwd", "/etc/pki"),
    *("/etc/protocols", "/etc/services", "/etc/ssl", "/etc/timezone"),
)
"""What programs of the system need, as far as it exists."""
MAX_COPIED: Final = 1024 * 1024
"""Bytes of the largest file that is copied, not mounted."""


class Placeholder(Struct, frozen=True):
    """An empty file created so that a path which must look empty can be covered."""

    path: str
    inode: int


class OpenedView(Struct, frozen=True):
    view: SandboxView
    placeholders: tuple[Placeholder, ...]


@contextmanager
def opened(policy: SandboxPolicy) -> Iterator[OpenedView]:
    """The view of a policy; its descriptors are closed at the end, its placeholders are not."""
    with ExitStack() as descriptors:
        top = _open(policy.directory, descriptors)
        if not stat.S_ISDIR(os.fstat(top).st_mode):
            raise ToolFailed(f"{policy.directory} is not a directory: the sandbox needs one")
        bound = [BoundPath(policy.directory, top, writable=True)]
        for mount in policy.mounts:
            number = _open(mount.path, descriptors)
            bound.append(BoundPath(mount.path, number, mount.writable))
        bound.sort(key=lambda path: path.path.count("/"))
        bound += _pinned(policy, top, descriptors)
        masked, placeholders = _masked(policy, top)
        system, copied = _system(descriptors)
        view = SandboxView(system, copied, tuple(bound), masked)
        yield OpenedView(view, placeholders)


def _system(descriptors: ExitStack) -> tuple[tuple[SystemPath, ...], tuple[BoundPath, ...]]:
    system, copied = [], []
    for path in SYSTEM_PATHS:
        with suppress(OSError):
            found = os.lstat(path)
            if stat.S_ISREG(found.st_mode) and found.st_size <= MAX_COPIED:
                number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                descriptors.callback(os.close, number)
                copied.append(BoundPath(path, number))
            else:
                target = os.readlink(path) if stat.S_ISLNK(found.st_mode) else ""
                system.append(SystemPath(path, target))
    return tuple(system), tuple(copied)


def remove(directory: str, placeholders: tuple[Placeholder, ...]) -> None:
    """Remove the placeholders that are still ours and empty."""
    if not placeholders:
        return
    with suppress(OSError), ExitStack() as descriptors:
        top = _open(directory, descriptors)
        for placeholder in placeholders:
            with suppress(OSError):
                _remove(top, placeholder)


def _remove(top: int, placeholder: Placeholder) -> None:
    parent, name = os.path.split(placeholder.path)
    folder = opener()(top, parent or ".", O_PATH | os.O_DIRECTORY)
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if found.st_ino == placeholder.inode and not found.st_size:
            os.unlink(name, dir_fd=folder)
    finally:
        os.close(folder)


def _open(path: str, descriptors: ExitStack) -> int:
    try:
        number = os.open(path, O_PATH | os.O_CLOEXEC)
    except OSError as error:
        raise ToolFailed(
            f"the sandbox cannot show {path}: {error.strerror}; create it, or change the policy"
        ) from error
    descriptors.callback(os.close, number)
    return number


def _pinned(policy: SandboxPolicy, top: int, descriptors: ExitStack) -> list[BoundPath]:
    """The protected paths, read-only, and every directory above them.

    The directories are mounted on themselves, since a mount point cannot be renamed. Otherwise a
    command could move `.git` away and create another one, with hooks.
    """
    found: dict[str, BoundPath] = {}
    for path in sorted(policy.protected):
        names = path.split("/")
        for length in range(1, len(names) + 1):
            part = "/".join(names[:length])
            where = f"{policy.directory}/{part}"
            if (known := found.get(where)) and not known.writable:
                break  # all of it is read-only
            number = _plain(top, part)
            if number is None:
                break
            descriptors.callback(os.close, number)
            is_directory = stat.S_ISDIR(os.fstat(number).st_mode)
            found[where] = BoundPath(where, number, writable=is_directory and length < len(names))
    return sorted(found.values(), key=lambda path: path.path.count("/"))


def _plain(top: int, path: str) -> int | None:
    """A descriptor of a file or directory; None if there is none, or a symbolic link."""
    try:
        number = opener()(top, path, O_PATH | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EXDEV, errno.ELOOP):
            return None
        raise
    if stat.S_ISLNK(os.fstat(number).st_mode):
        os.close(number)
        return None
    return number


def _masked(
    policy: SandboxPolicy, top: int
) -> tuple[tuple[MaskedPath, ...], tuple[Placeholder, ...]]:
    masked: list[MaskedPath] = []
    placeholders: list[Placeholder] = []
    for path in policy.masked:
        found = _resolved(policy.directory, top, path)
        if found is None and (placeholder := _placeholder(top, path)):
            placeholders.append(placeholder)
            found = MaskedPath(f"{policy.directory}/{path}", "file")
        if found:
            masked.append(found)
    return tuple(masked), tuple(placeholders)


def _resolved(directory: str, top: int, path: str) -> MaskedPath | None:
    """The target of a path, with its links followed as far as they stay inside."""
    try:
        number = opener()(top, path, O_PATH)
    except OSError:
        return None
    try:
        names = os.readlink(f"/proc/self/fd/{number}")
        here = os.readlink(f"/proc/self/fd/{top}")
        is_directory = stat.S_ISDIR(os.fstat(number).st_mode)
    finally:
        os.close(number)
    if names == here or not inside(names, here):
        return None
    kind: Literal["file", "directory"] = "directory" if is_directory else "file"
    return MaskedPath(directory + names[len(here.rstrip("/")) :], kind)


def _placeholder(top: int, path: str) -> Placeholder | None:
    """An empty file at a path where nothing is; None without its directory, or for a link."""
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW
    try:
        number = opener()(top, path, flags, 0o600)
    except OSError:
        return None
    try:
        return Placeholder(path, os.fstat(number).st_ino)
    finally:
        os.close(number)
