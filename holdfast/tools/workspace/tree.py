"""A tree of files as the walk and the search see it: without `await`, so they may run anywhere.

A `Directory` is one. Any other workspace is one for a thread, which asks the event loop.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from holdfast.kernel.workspace import DirectoryEntry, PathRefused

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Coroutine

    from holdfast.kernel.workspace import Workspace

T = TypeVar("T")


class Tree(Protocol):
    """The part of a directory that a walk and a search need."""

    def relative(self, path: str) -> str: ...

    def entries(self, path: str = ".", most: int | None = None) -> Sequence[DirectoryEntry]: ...

    def link_target(self, path: str) -> str:
        """Where a link points to; `?` if it is no longer a link."""
        ...

    def is_file(self, path: str) -> bool:
        """Whether a path leads to a regular file. Refuses one that leads nowhere."""
        ...

    def read_if_there(self, path: str, limit: int) -> bytes | None:
        """The bytes of a regular file; None if it cannot be read, or is larger."""
        ...

    def read_limited(self, path: str, limit: int) -> bytes | None:
        """The bytes of a regular file; None if it is larger. Raises `PathRefused` or OSError."""
        ...


class WorkspaceTree:
    """The files of any workspace, for a thread. The event loop must be running."""

    def __init__(self, workspace: Workspace, loop: AbstractEventLoop) -> None:
        self._workspace = workspace
        self._loop = loop

    def relative(self, path: str) -> str:
        return self._workspace.relative(path)

    def entries(self, path: str = ".", most: int | None = None) -> Sequence[DirectoryEntry]:
        return self._ask(self._workspace.list(path, most))

    def link_target(self, path: str) -> str:
        return "?"  # a workspace that reads targets has done so with the entries

    def is_file(self, path: str) -> bool:
        return self._ask(self._workspace.stat(path)).kind == "file"

    def read_if_there(self, path: str, limit: int) -> bytes | None:
        try:
            return self.read_limited(path, limit)
        except PathRefused:
            return None

    def read_limited(self, path: str, limit: int) -> bytes | None:
        try:
            return self._ask(self._workspace.read(path, limit)).data
        except PathRefused as refusal:
            if refusal.code == errno.EFBIG:
                return None
            raise

    def _ask(self, work: Coroutine[Any, Any, T]) -> T:
        from asyncio import run_coroutine_threadsafe

        return run_coroutine_threadsafe(work, self._loop).result()
