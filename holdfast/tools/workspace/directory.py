"""The directory that an agent may work in: every path is resolved inside it."""

from __future__ import annotations

import errno
import os
import stat
import threading
import weakref
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import islice
from typing import Final

from holdfast.kernel.errors import ConfigError
from holdfast.kernel.workspace import DirectoryEntry, EntryKind, FileContent, PathRefused
from holdfast.tools.workspace import atomic_replace
from holdfast.tools.workspace.errors import (
    PathError,
    in_words,
    is_missing,
    shown,
    similar,
    unusable,
)
from holdfast.tools.workspace.openat import MAX_LINKS, O_PATH, Opener
from holdfast.tools.workspace.openat import opener as best_opener

_FOLDER: Final = O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_MAX_NEIGHBOURS: Final = 1_000
"""Names examined to find a similar one."""
_UNCHANGED: Final = "nothing was changed: "
_REPLACING: Final = threading.Lock()
"""Lock: of two threads that expect the same version only one succeeds, in any `Directory`."""


class Directory:
    """A directory, held open: it stays the same even if its name is changed.

    Thread-safe. Names that are not UTF-8 are decoded as by `os.fsdecode`.
    """

    def __init__(self, path: str | os.PathLike[str], *, opener: Opener | None = None) -> None:
        """Raises `ConfigError` if the path does not exist or is not a directory."""
        self._held = _Held(_open_top(path))
        weakref.finalize(self, self._held.close)
        self._opener = opener or best_opener()
        self._given = os.path.abspath(path)
        self.path: str = os.path.realpath(path)
        """Absolute path, for people and for commands."""

    def __enter__(self) -> Directory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close: running operations finish, later ones are refused."""
        self._held.close()

    def relative(self, path: str) -> str:
        """A path relative to the directory. An absolute path has to be inside the directory.

        Nothing is looked up: `..` and links are followed when the path is opened.
        """
        if why := unusable(path):
            raise PathRefused(f"{shown(path)} {why}", errno.EINVAL)
        names = _names(path)
        if path == "~" or path.startswith("~/"):
            raise PathRefused(
                f"{shown(path)} would be in a directory named ~ here: use a path inside "
                f"{shown(self.path)}",
                errno.EINVAL,
            )
        if path.startswith("/"):
            for top in (_names(self.path), _names(self._given)):
                if names[: len(top)] == top:
                    names = names[len(top) :]
                    break
            else:
                raise PathRefused(f"{shown(path)} {self._outside()}", errno.EXDEV)
        here = "./" if names[:1] == ["~"] else ""  # a directory that really has this name
        slash = "/" if names and path.endswith(("/", "/.")) else ""  # names a directory
        return here + ("/".join(names) or ".") + slash

    def settled(self, path: str) -> str:
        """A path with links and `..` resolved as they are now: the same for all names of a file.

        For comparing files, not for opening them: the path may lead elsewhere by then.
        """
        relative = self.relative(path)
        try:
            found = os.path.realpath(os.path.join(self.path, relative))
        except OSError:  # a link was replaced while it was read
            return relative
        top = self.path.rstrip("/") + "/"
        return found.removeprefix(top) if found.startswith(top) else relative

    # --- Reading --------------------------------------------------------------------------------

    def open(self, path: str, flags: int = os.O_RDONLY) -> int:
        """A descriptor of a regular file or a directory inside this one.

        Never blocks, and never creates a file: see `create`.
        """
        relative = self.relative(path)
        with self._refusing(path, relative):
            return self._open_plain(relative, flags & ~os.O_CREAT)

    def open_file(self, path: str) -> int:
        """A descriptor for reading a regular file."""
        relative = self.relative(path)
        with self._refusing(path, relative):
            return self._open_regular(relative)

    def read(self, path: str, limit: int) -> FileContent:
        """The bytes of a regular file of at most `limit` bytes."""
        relative = self.relative(path)
        with self._refusing(path, relative), ExitStack() as opened:
            descriptor = self._open_regular(relative)
            opened.callback(os.close, descriptor)
            found = os.fstat(descriptor)
            if found.st_size > limit:
                raise _too_large(f"{found.st_size:,}", limit)
            data = atomic_replace.read(descriptor, limit + 1)
            if len(data) > limit:  # it is growing, or its file system does not report its size
                raise _too_large(f"more than {limit:,}", limit)
        return FileContent(data, atomic_replace.version(data), self.settled(path))

    def read_if_there(self, path: str, limit: int) -> bytes | None:
        """The bytes of a regular file; None if it cannot be read, for whatever reason.

        Cheaper than `read` for a file that is often missing: similar names are not searched.
        """
        try:
            descriptor = self._open_plain(self.relative(path), os.O_RDONLY)
        except (OSError, PathRefused):
            return None
        with open(descriptor, "rb") as file, suppress(OSError):
            data = file.read(limit + 1)
            return data if len(data) <= limit else None
        return None

    def read_limited(self, path: str, limit: int) -> bytes | None:
        """The bytes of a regular file; None if it is larger. Raises `PathRefused` or OSError."""
        with open(self.open(path), "rb") as file:
            data = file.read(limit + 1)
        return data if len(data) <= limit else None

    def is_file(self, path: str) -> bool:
        """Whether a path leads to a regular file. Refuses one that leads nowhere."""
        descriptor = self.open(path)
        try:
            return stat.S_ISREG(os.fstat(descriptor).st_mode)
        finally:
            os.close(descriptor)

    def stat(self, path: str) -> DirectoryEntry:
        """The entry that a path leads to; links are followed."""
        relative = self.relative(path)
        with self._refusing(path, relative):
            descriptor = self.open_inside(relative, O_PATH or os.O_RDONLY | os.O_NONBLOCK)
            try:
                found = os.fstat(descriptor)
            finally:
                os.close(descriptor)
        name = relative.rstrip("/").rpartition("/")[2]
        return _described(name, found)

    def link_target(self, path: str) -> str:
        """Where a link points to; `?` if it is no longer a link."""
        folder, _, name = self.relative(path).rpartition("/")
        try:
            descriptor = self.open_inside(folder or ".", _FOLDER)
        except OSError:
            return "?"
        try:
            return os.readlink(name, dir_fd=descriptor)
        except OSError:  # deleted, or no longer a link
            return "?"
        finally:
            os.close(descriptor)

    def entries(self, path: str = ".", most: int | None = None) -> list[DirectoryEntry]:
        """The entries of a directory, sorted by name; at most `most`, any of them."""
        relative = self.relative(path)
        with self._refusing(path, relative), self._scan(relative) as names:
            found = [entry for name in islice(names, most) if (entry := _entry(name)) is not None]
        return sorted(found, key=lambda entry: entry.name)

    # --- Writing --------------------------------------------------------------------------------

    def write(self, path: str, data: bytes, *, unless_changed: str | None = None) -> str:
        """Replace or create a file atomically; returns its new version.

        Missing directories are created.

        `unless_changed`: refuse if the file no longer has this version (`""`: if it exists).
        A link is kept, and the file that it points to is replaced.
        """
        relative = self.relative(path)
        with self._refusing(path, relative, _UNCHANGED), _ParentDirectories(self) as parents:
            folder, name = parents.resolved(relative)
            old = atomic_replace.replaceable(folder, name)
            new = atomic_replace.written(folder, data, old)
            try:
                with _REPLACING:
                    if unless_changed is not None:
                        atomic_replace.refuse_changed(folder, name, unless_changed)
                    os.rename(new, name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                atomic_replace.remove(folder, new)
                raise
            parents.keep()
            atomic_replace.sync(folder)
        return atomic_replace.version(data)

    def create(self, path: str) -> int:
        """A descriptor for writing a new file; refuses if the file exists."""
        relative = self.relative(path)
        with self._refusing(path, relative, _UNCHANGED), _ParentDirectories(self) as parents:
            folder, name = parents.parent(relative)
            descriptor = os.open(name, atomic_replace.NEW, 0o600, dir_fd=folder)
            atomic_replace.give_to_owner(descriptor, folder)
            parents.keep()
            return descriptor

    def remove(self, path: str) -> None:
        """Remove a file, or a link itself; not a directory."""
        relative = self.relative(path)
        folder, _, name = relative.rpartition("/")
        with self._refusing(path, relative, _UNCHANGED):
            if name in ("", ".", ".."):
                raise OSError(errno.EISDIR, "a directory")
            descriptor = self.open_inside(folder or ".", _FOLDER)
            try:
                os.unlink(name, dir_fd=descriptor)
            finally:
                os.close(descriptor)

    # --- Opening and refusing -------------------------------------------------------------------

    def open_inside(self, relative: str, flags: int) -> int:
        """A descriptor of anything inside, by a path from `relative`. Raises OSError."""
        with self._held as top:
            return self._opener(top, relative, flags | os.O_CLOEXEC)

    def _open_plain(self, relative: str, flags: int) -> int:
        # Without these a FIFO waits for its other end, and a terminal becomes ours.
        descriptor = self.open_inside(relative, flags | os.O_NONBLOCK | os.O_NOCTTY)
        try:
            atomic_replace.refuse_special(os.fstat(descriptor))
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _open_regular(self, relative: str) -> int:
        descriptor = self._open_plain(relative, os.O_RDONLY)
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(errno.EISDIR, "a directory")
        return descriptor

    @contextmanager
    def _scan(self, relative: str) -> Iterator[Iterator[os.DirEntry[str]]]:
        descriptor = self.open_inside(relative, os.O_RDONLY | os.O_DIRECTORY | os.O_NONBLOCK)
        try:
            with os.scandir(descriptor) as names:
                yield names
        finally:
            os.close(descriptor)

    @contextmanager
    def _refusing(self, path: str, relative: str, before: str = "") -> Iterator[None]:
        """Turn an `OSError` into `PathRefused` with a message."""
        try:
            yield
        except OSError as error:
            why = in_words(error)
            if error.errno == errno.EXDEV:
                why = self._outside()
            elif error.errno == errno.ENOENT and not isinstance(error, PathError):
                why = self._missing(relative)
            expected = False if self._held.is_removed() else None
            words = f"{before}{shown(path)} {why}"
            raise PathRefused(words, error.errno or 0, expected=expected) from error

    def _outside(self) -> str:
        return f"is outside of the directory {shown(self.path)}: use a path inside it"

    def _missing(self, relative: str) -> str:
        """The message for a missing path, with similar names that exist."""
        if self._held.is_removed():
            return f"cannot be used: the directory {shown(self.path)} was removed"
        names = relative.rstrip("/").split("/")
        # By bisection: a path may have thousands of names, and a look-up opens each of them.
        depth = bisect_left(range(1, len(names)), True, key=lambda at: self._ends(names[:at]))
        try:
            with self._scan("/".join(names[:depth]) or ".") as found:
                there = [entry.name for entry in islice(found, _MAX_NEIGHBOURS)]
        except OSError:
            return is_missing([])
        if names[depth] in there:
            return "is a link to something that does not exist: use another path"
        alike = similar(names[depth], there)
        return is_missing(["/".join([*names[:depth], name]) for name in alike])

    def _ends(self, names: list[str]) -> bool:
        """Whether the path leads to something that is missing or is not a directory."""
        try:
            os.close(self.open_inside("/".join(names), _FOLDER))
        except OSError:
            return True
        return False


class _Held:
    """A descriptor that is closed once no operation uses it: its number may then be reused."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._closed = False
        self._users = 0
        self._lock = threading.Lock()

    def __enter__(self) -> int:
        with self._lock:
            if self._closed:
                raise OSError(errno.EBADF, "closed")
            self._users += 1
            return self._number

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._users -= 1
            if self._closed and not self._users:
                os.close(self._number)

    def close(self) -> None:
        with self._lock:
            if not self._closed and not self._users:
                os.close(self._number)
            self._closed = True

    def is_removed(self) -> bool:
        with suppress(OSError), self as number:
            return os.fstat(number).st_nlink == 0
        return False


class _ParentDirectories:
    """Directories created for a new file, and removed again unless they are kept."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._opened = ExitStack()
        self._made = ExitStack()

    def __enter__(self) -> _ParentDirectories:
        return self

    def __exit__(self, *_: object) -> None:
        with self._opened:
            self._made.close()

    def keep(self) -> None:
        self._made.pop_all()

    def resolved(self, relative: str) -> tuple[int, str]:
        """The directory of a file, with all links resolved, and the file's name in it."""
        for _ in range(MAX_LINKS + 1):
            folder, name = self.parent(relative)
            try:
                target = os.readlink(name, dir_fd=folder)
            except OSError as error:
                if error.errno in (errno.EINVAL, errno.ENOENT):  # not a link
                    return folder, name
                raise
            if target.startswith("/"):
                raise OSError(errno.EXDEV, "an absolute link")
            before, slash, _name = relative.rpartition("/")
            relative = before + slash + target
        raise OSError(errno.ELOOP, "too many links")

    def parent(self, relative: str) -> tuple[int, str]:
        """The directory of a path, created if missing, and the last name of the path."""
        *names, last = relative.split("/")
        if last in ("", ".", ".."):
            raise OSError(errno.EISDIR, "a directory")
        names = [name for name in names if name not in ("", ".")]
        folder, depth = self._deepest(names)
        for there in range(depth, len(names)):
            folder = self._make(folder, names[: there + 1])
        return folder, last

    def _deepest(self, names: list[str]) -> tuple[int, int]:
        """The deepest directory of the path that exists, and how many names lead to it."""
        for depth in range(len(names), -1, -1):
            try:
                return self._open(names[:depth]), depth
            except FileNotFoundError:
                if depth == 0 or names[depth - 1] == "..":  # `..` of a missing directory
                    raise
        raise AssertionError("unreachable")

    def _make(self, folder: int, names: list[str]) -> int:
        name = names[-1]
        try:
            os.mkdir(name, dir_fd=folder)
        except FileExistsError:
            with suppress(FileNotFoundError):
                return self._open(names)  # another process created it
            raise PathError(
                f"cannot be created: {shown('/'.join(names))} is a link to something that "
                "does not exist",
                errno.ENOENT,
            ) from None
        self._made.callback(_rmdir, folder, name)
        atomic_replace.give_directory_to_owner(name, folder)
        atomic_replace.sync(folder)
        return self._open(names)

    def _open(self, names: list[str]) -> int:
        descriptor = self._directory.open_inside("/".join(names) or ".", _FOLDER)
        self._opened.callback(os.close, descriptor)
        return descriptor


def _rmdir(folder: int, name: str) -> None:
    with suppress(OSError):  # another process uses it
        os.rmdir(name, dir_fd=folder)


def _open_top(path: str | os.PathLike[str]) -> int:
    name = shown(os.fspath(path))
    try:
        return os.open(path, _FOLDER)
    except FileNotFoundError:
        why = "does not exist: create it, or name another directory"
    except NotADirectoryError:
        why = "is not a directory: name one"
    except OSError as error:
        why = in_words(error)
    except ValueError:
        why = unusable(os.fspath(path))
    raise ConfigError(f"{name} {why}")


def _names(path: str) -> list[str]:
    """The names of a path, without empty ones and `.`."""
    return [name for name in path.split("/") if name not in ("", ".")]


def _entry(name: os.DirEntry[str]) -> DirectoryEntry | None:
    """The entry; None if it was deleted meanwhile."""
    try:
        found = name.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None
    return _described(name.name, found)


def _described(name: str, found: os.stat_result) -> DirectoryEntry:
    kind: EntryKind = "other"
    if stat.S_ISREG(found.st_mode):
        kind = "file"
    elif stat.S_ISDIR(found.st_mode):
        kind = "directory"
    elif stat.S_ISLNK(found.st_mode):
        kind = "link"
    return DirectoryEntry(name, kind, found.st_size if kind == "file" else 0)


def _too_large(size: str, limit: int) -> PathError:
    return PathError(
        f"has {size} bytes, and at most {limit:,} can be read: read a part of it with a "
        "command, such as grep or sed",
        errno.EFBIG,
    )
