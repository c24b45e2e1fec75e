"""Opens a path inside a directory, safely while links and names change.

A path is never checked first and opened afterwards: what was checked may be something else by
then. On Linux the kernel resolves the path and refuses to leave the directory (`openat2`).
Elsewhere, and where `openat2` is forbidden, `walk` does the same name by name.

Both raise OSError: EXDEV for a path that leaves the directory, even if it returns, and otherwise
what `open` would have raised.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections import deque
from collections.abc import Callable
from functools import cache
from typing import Final, Protocol

MAX_LINKS: Final = 40
"""Maximum links followed in one path, as in Linux."""
MAX_PATH: Final = 4096
"""Maximum bytes of a path, including the final zero, as in Linux."""
O_PATH: Final[int] = getattr(os, "O_PATH", 0)
"""Open without reading. Needs no permission to list a directory on the way."""

_SYSCALL: Final = 437
_RESOLVE_NO_MAGICLINKS: Final = 0x02
_RESOLVE_BENEATH: Final = 0x08
_TRIES: Final = 64
"""How often a lookup is repeated because of a rename meanwhile."""
_NOT_OPENED: Final = frozenset({errno.ELOOP, errno.ENOTDIR, errno.EMLINK})
"""Errors that systems report for a link that must not be followed."""


class Opener(Protocol):
    def __call__(self, top: int, path: str, flags: int, mode: int = 0) -> int:
        """A descriptor of what a path names inside the directory `top`."""


@cache
def opener() -> Opener:
    """The best function to open a path that works here. Detected once."""
    try:
        root = os.open("/", O_PATH | os.O_DIRECTORY)
        try:
            os.close(openat2(root, ".", O_PATH | os.O_DIRECTORY))
        finally:
            os.close(root)
    except OSError:  # an old kernel, another system, or a filter that forbids the call
        return walk
    return openat2


# --- By the kernel ------------------------------------------------------------------------------


def openat2(top: int, path: str, flags: int, mode: int = 0) -> int:
    """Let the kernel resolve the path. Raises ENOSYS where it cannot."""
    name = _encoded(path)
    mode = mode if flags & os.O_CREAT else 0  # the call refuses a mode that has no use
    for _ in range(_TRIES):
        descriptor, error = _call()(top, name, flags | os.O_CLOEXEC, mode)
        if descriptor >= 0:
            return descriptor
        # EAGAIN: something was renamed, and the kernel cannot tell whether `..` led outside.
        if error not in (errno.EAGAIN, errno.EINTR):
            break
    raise _error(error, path)


@cache
def _call() -> Callable[[int, bytes, int, int], tuple[int, int]]:
    """The system call: returns a descriptor or -1, and the error number."""
    if not sys.platform.startswith("linux") or os.uname().machine == "alpha":
        return _no_call  # the number means another call there, or none
    try:
        import ctypes

        syscall = ctypes.CDLL(None, use_errno=True).syscall
    except (ImportError, OSError, AttributeError):
        return _no_call
    syscall.restype = ctypes.c_long
    how_type = ctypes.c_uint64 * 3
    number, size = ctypes.c_long(_SYSCALL), ctypes.c_size_t(ctypes.sizeof(how_type))

    def call(top: int, name: bytes, flags: int, mode: int) -> tuple[int, int]:
        how = how_type(flags, mode, _RESOLVE_BENEATH | _RESOLVE_NO_MAGICLINKS)
        opened = syscall(number, ctypes.c_int(top), ctypes.c_char_p(name), how, size)
        return opened, ctypes.get_errno()

    return call


def _no_call(top: int, name: bytes, flags: int, mode: int) -> tuple[int, int]:
    return -1, errno.ENOSYS


# --- Name by name -------------------------------------------------------------------------------


def walk(top: int, path: str, flags: int, mode: int = 0, *, through: int = O_PATH) -> int:
    """Open each name in the directory before it, without letting the system follow links.

    The directories on the way stay open, and `..` returns to the one we came from: the parent that
    the system would use may have been moved outside. `through`: flags to open them with.
    """
    way = _OpenPath(top, through)
    links = 0
    try:
        names = deque(_names(_encoded(path)))
        while True:
            name = names.popleft()
            if name in (b"", b"."):
                if not names:
                    return os.open(b".", flags | os.O_CLOEXEC, mode, dir_fd=way.here)
                continue
            if name == b"..":
                way.back()
                names = names or deque([b"."])
                continue
            if flags & os.O_CREAT and list(names) == [b""]:
                raise _error(errno.EISDIR, path)  # the name of a file cannot end in a slash
            link = way.enter(name) if names else way.end(name, flags, mode)
            if isinstance(link, int):
                return link
            if link is not None:
                links += 1
                if links > MAX_LINKS:
                    raise _error(errno.ELOOP, path)
                names.extendleft(reversed(_names(link)))
    except OSError as error:
        raise _error(error.errno or errno.EIO, path) from None
    finally:
        way.close()


class _OpenPath:
    """The directories from the top to the current one, each held open."""

    def __init__(self, top: int, through: int) -> None:
        self._opened = [top]
        self._flags = through | os.O_DIRECTORY

    @property
    def here(self) -> int:
        return self._opened[-1]

    def enter(self, name: bytes) -> bytes | None:
        """Enter a directory. If the name is a link, stay, and return its target."""
        found = _open_or_link(self.here, name, self._flags)
        if isinstance(found, bytes):
            return found
        self._opened.append(found)
        return None

    def end(self, name: bytes, flags: int, mode: int) -> int | bytes:
        """Open the last name; if it is a link to follow, return its target."""
        if flags & os.O_NOFOLLOW:
            return os.open(name, flags | os.O_CLOEXEC, mode, dir_fd=self.here)
        return _open_or_link(self.here, name, flags, mode)

    def back(self) -> None:
        os.stat(b".", dir_fd=self.here)  # refused without the permission to pass, as by the kernel
        if len(self._opened) == 1:
            raise _error(errno.EXDEV, "..")
        os.close(self._opened.pop())

    def close(self) -> None:
        for descriptor in self._opened[1:]:
            os.close(descriptor)


def _open_or_link(directory: int, name: bytes, flags: int, mode: int = 0) -> int | bytes:
    """Open a name, or return its target if it is a link, even if it changes meanwhile."""
    refused = _error(errno.EAGAIN, "")
    for _ in range(16):
        try:
            opened = os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=directory)
        except OSError as error:
            if error.errno not in _NOT_OPENED:
                raise
            refused = error
        else:
            if not flags & O_PATH or not stat.S_ISLNK(os.fstat(opened).st_mode):
                return opened
            os.close(opened)  # a link that was opened itself
        try:
            return os.readlink(name, dir_fd=directory)
        except OSError as error:
            if error.errno != errno.EINVAL:  # EINVAL: not a link, or no longer one
                raise
    raise refused


def _names(path: bytes) -> list[bytes]:
    """The names of a path. The last is empty if the path ends in a slash."""
    if not path:
        raise _error(errno.ENOENT, "")
    if path.startswith(b"/"):
        raise _error(errno.EXDEV, "")
    *names, last = path.split(b"/")
    return [*filter(None, names), last]


def _encoded(path: str) -> bytes:
    """The path as bytes. Refuses a path that the system would truncate or cannot represent."""
    try:
        name = os.fsencode(path)
    except UnicodeEncodeError:
        raise _error(errno.EINVAL, path) from None
    if b"\0" in name:
        raise _error(errno.EINVAL, path)
    if len(name) >= MAX_PATH:
        raise _error(errno.ENAMETOOLONG, path)
    return name


def _error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)
