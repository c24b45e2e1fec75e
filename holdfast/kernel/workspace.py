"""Workspaces: where the file and command tools of an agent act.

The bundled tools know only what is here. A kind of workspace (a directory, another machine, a
container) is an object with the methods of `Workspace`.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence
from typing import Final, Literal, Protocol

from msgspec import Struct

from holdfast.kernel.errors import ToolFailed

EntryKind = Literal["file", "directory", "link", "other"]

_EXPECTED: Final = frozenset(
    {
        0,  # our own message about the content of a file
        errno.EEXIST,
        errno.EFBIG,
        errno.EISDIR,
        errno.ELOOP,
        errno.ENODEV,
        errno.ENOENT,
        errno.ENOTDIR,
        errno.ENOTEMPTY,
        errno.ENXIO,
        errno.EOPNOTSUPP,
        errno.ESTALE,
        errno.EXDEV,
    }
)
"""Error codes that describe what a path names. All others are failures."""


class PathRefused(ToolFailed):
    """A path cannot be used; the message says why. Nothing was changed."""

    def __init__(self, message: str, code: int = 0, *, expected: bool | None = None) -> None:
        super().__init__(message)
        self.code = code
        """The system's error number, for example `errno.ENOENT`, or 0."""
        self.expected = code in _EXPECTED if expected is None else expected


class CannotAttach(ToolFailed):
    """A command cannot be attached to: it is unknown, or its workspace keeps no commands."""


class FileContent(Struct, frozen=True):
    """The content of a file."""

    data: bytes
    version: str
    """Version of the content: differs whenever the bytes differ."""
    file: str
    """Its path with links and `..` resolved, as by `Workspace.resolve`."""


class DirectoryEntry(Struct, frozen=True):
    """One entry of a directory; a link is not followed."""

    name: str
    kind: EntryKind
    size: int
    """Size in bytes; 0 for anything but a file."""
    target: str = ""
    """Where a link points to; empty if that was not read."""


class WorkspaceInfo(Struct, frozen=True):
    """Description of a workspace, for people and models."""

    kind: str
    """The kind, such as `directory`."""
    root: str
    """Name of the top directory: an absolute path, or `host:path`."""
    isolation: str
    """How commands run, as words that follow "Runs": `as you, without isolation`."""
    description: str
    """The same for the model, as sentences in the description of the tool `execute`."""


class CommandExit(Struct, frozen=True):
    """How a command ended."""

    code: int | None
    """Exit code; negative: the signal number. None: unknown, the supervisor was killed."""
    left: int = 0
    """Number of processes it left running. They were stopped."""
    alive: int = 0
    """Number of its processes that could not be stopped."""


class OpenFile(Protocol):
    """A file that is read from its beginning to its end."""

    @property
    def size(self) -> int:
        """Size in bytes when it was opened."""
        ...

    async def read(self, most: int) -> bytes:
        """The next bytes, at least one and at most `most`; empty at the end."""
        ...

    async def close(self) -> None: ...


class NewFile(Protocol):
    """A new file that is written from its beginning to its end."""

    async def write(self, data: bytes) -> None:
        """Append all of the data. Raises OSError."""
        ...

    async def close(self) -> None: ...


class Command(Protocol):
    """A running command, with all processes that it started."""

    @property
    def id(self) -> str:
        """Names the command in its workspace, for `Workspace.attach`."""
        ...

    async def read(self, seconds: float | None = None) -> bytes | None:
        """New output, empty if there is none in time; None after the end."""
        ...

    async def stop(self) -> None:
        """Request that all its processes are stopped; its output ends soon. Does not wait."""
        ...

    async def kill(self) -> None:
        """Kill what can be found, after `stop` had no effect in time."""
        ...

    async def wait(self) -> CommandExit:
        """How it ended, once its output has ended."""
        ...

    async def close(self) -> None:
        """Let go of it. A command that cannot be attached to again is stopped. May be repeated."""
        ...


class Workspace(Protocol):
    """The place where the file and command tools of an agent act.

    Paths are relative to the top directory, or absolute inside it. A path never leads outside,
    whatever links there are and whatever other programs do meanwhile. A name that is not UTF-8 is
    decoded as by `os.fsdecode`. A path that cannot be used raises `PathRefused`, with the error
    number of the system as its `code`. Methods may be called concurrently.
    """

    @property
    def info(self) -> WorkspaceInfo: ...

    def relative(self, path: str) -> str:
        """A path relative to the top directory; nothing is looked up."""
        ...

    async def resolve(self, path: str) -> str:
        """A path with links and `..` resolved as they are now: the same for all names of a file.

        For comparing files, not for opening them: the path may lead elsewhere by then.
        """
        ...

    async def stat(self, path: str) -> DirectoryEntry:
        """The entry that a path leads to; links are followed."""
        ...

    async def list(self, path: str, most: int | None = None) -> Sequence[DirectoryEntry]:
        """The entries of a directory, sorted by name; at most `most`, any of them."""
        ...

    async def read(self, path: str, limit: int) -> FileContent:
        """The content of a regular file. Refuses more than `limit` bytes with `EFBIG`."""
        ...

    async def open(self, path: str) -> OpenFile:
        """Open a regular file of any size for reading."""
        ...

    async def replace(self, path: str, data: bytes, *, expected: str | None = None) -> str:
        """Replace or create a file atomically, with missing directories; returns its new version.

        `expected`: refuse if the file no longer has this version (`""`: if it exists). A link is
        kept, and the file that it points to is replaced. If the call is cancelled, it has either
        replaced the file or changed nothing.
        """
        ...

    async def create(self, path: str) -> NewFile:
        """Create a file for its owner alone, with missing directories. Refuses if it exists."""
        ...

    async def remove(self, path: str) -> None:
        """Remove a file, or a link itself; not a directory."""
        ...

    async def start(
        self,
        command: str,
        *,
        directory: str = ".",
        variables: Mapping[str, str] | None = None,
        time_limit: float,
    ) -> Command:
        """Run a command in a shell, with standard output and error combined, and no input.

        `variables`: set in addition to those that every command of this workspace gets.
        `time_limit`: seconds after which the workspace stops the command by itself.
        """
        ...

    async def attach(self, command_id: str) -> Command:
        """A command that was started earlier, also by another process. Raises `CannotAttach`."""
        ...
