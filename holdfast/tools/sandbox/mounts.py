"""The files that a sandboxed command sees, found and opened just before it starts."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Final, Literal

from holdfast.kernel.errors import ToolFailed
from holdfast.tools.sandbox.bubblewrap import BoundPath, MaskedPath, SandboxView, SystemPath
from holdfast.tools.sandbox.placeholders import held
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


@contextmanager
def opened(policy: SandboxPolicy) -> Iterator[SandboxView]:
    """The view of a policy, valid until the end of the block, which has to outlast the command."""
    with ExitStack() as descriptors:
        top = _open(policy.directory, descriptors)
        if not stat.S_ISDIR(os.fstat(top).st_mode):
            raise ToolFailed(f"{policy.directory} is not a directory: the sandbox needs one")
        bound = [BoundPath(policy.directory, top, writable=True)]
        for mount in policy.mounts:
            number = _open(mount.path, descriptors)
            bound.append(BoundPath(mount.path, number, mount.writable))
        bound.sort(key=lambda path: path.path.count("/"))
        descriptors.enter_context(held(top, (*policy.protected, *policy.masked)))
        bound += _pinned(policy, top, descriptors)
        found = (_resolved(policy.directory, top, path) for path in policy.masked)
        masked = tuple(path for path in found if path)
        system, copied = _system(descriptors)
        yield SandboxView(system, copied, tuple(bound), masked)


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
