"""The workspace of kind `directory`: a directory of this machine, and commands run as its user."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.kernel.errors import ToolFailed
from holdfast.kernel.workspace import (
    CannotAttach,
    Command,
    DirectoryEntry,
    FileContent,
    PathRefused,
    WorkspaceInfo,
)
from holdfast.tools.blocking_work import to_end
from holdfast.tools.commands import environment as environments
from holdfast.tools.commands.process import start
from holdfast.tools.workspace.directory import Directory
from holdfast.tools.workspace.walk_query import WalkQuery, WalkResult, walk

if TYPE_CHECKING:
    from holdfast.tools.search_query import SearchQuery

ISOLATION: Final = "as you, without isolation"
DESCRIPTION: Final = (
    "It runs on the user's computer as the user, with the user's environment: it is not isolated, "
    "and can reach everything the\nuser can."
)


class DirectoryWorkspace:
    """A directory of this machine. Its commands run as the user of this process: not isolated.

    Blocking work runs in threads.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str] | Directory,
        *,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """`environ`: all variables for commands, instead of those of this process.

        Raises `ConfigError` if the path does not exist or is not a directory.
        """
        self._directory = directory if isinstance(directory, Directory) else Directory(directory)
        self._environ = environ
        self.info = WorkspaceInfo("directory", self._directory.path, ISOLATION, DESCRIPTION)

    def relative(self, path: str) -> str:
        return self._directory.relative(path)

    async def resolve(self, path: str) -> str:
        return await to_end(partial(self._directory.settled, path))

    async def stat(self, path: str) -> DirectoryEntry:
        return await to_end(partial(self._directory.stat, path))

    async def list(self, path: str, most: int | None = None) -> Sequence[DirectoryEntry]:
        return await to_end(partial(_entries, self._directory, path, most))

    async def read(self, path: str, limit: int) -> FileContent:
        return await to_end(partial(self._directory.read, path, limit))

    async def open(self, path: str) -> _File:
        descriptor = await to_end(partial(self._directory.open_file, path))
        return _File(descriptor)

    async def replace(self, path: str, data: bytes, *, expected: str | None = None) -> str:
        return await to_end(partial(self._directory.write, path, data, unless_changed=expected))

    async def create(self, path: str) -> _File:
        return _File(await to_end(partial(self._directory.create, path)))

    async def remove(self, path: str) -> None:
        await to_end(partial(self._directory.remove, path))

    async def start(
        self,
        command: str,
        *,
        directory: str = ".",
        variables: Mapping[str, str] | None = None,
        time_limit: float,
    ) -> Command:
        environ = {**self._base(), **(variables or {})}
        shell = _shell(environ)
        # The command starts in the directory opened here, even if its name is changed meanwhile.
        folder = self._directory.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            return start(shell, command, folder, environ, time_limit=time_limit)
        finally:
            os.close(folder)

    async def attach(self, command_id: str) -> Command:
        raise CannotAttach(
            "a command of a directory ends with the process that started it: run it again"
        )

    # --- Faster than one call per file ----------------------------------------------------------

    async def walk(self, query: WalkQuery) -> WalkResult:
        return await to_end(partial(walk, self._directory, query))

    async def search(self, query: SearchQuery, seconds: float) -> str:
        from holdfast.tools.search_process import search_directory

        return await search_directory(self._directory, query, seconds)

    def _base(self) -> Mapping[str, str]:
        environ = self._environ
        return environments.without_directories(
            environments.usual(os.environ) if environ is None else environ
        )


def _entries(directory: Directory, path: str, most: int | None) -> list[DirectoryEntry]:
    entries = directory.entries(path, most)
    for at, entry in enumerate(entries):
        if entry.kind == "link":
            target = directory.link_target(f"{path.rstrip('/') or '/'}/{entry.name}")
            entries[at] = msgspec.structs.replace(entry, target=target)
    return entries


class _File:
    """An open file, read or written in threads."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor
        self.size = os.fstat(descriptor).st_size

    async def read(self, most: int) -> bytes:
        return await to_end(partial(os.read, self._opened(), most))

    async def write(self, data: bytes) -> None:
        await to_end(partial(_write, self._opened(), data))

    async def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _opened(self) -> int:
        if self._descriptor is None:
            raise PathRefused("the file is closed: open it again")
        return self._descriptor


def _write(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _shell(environ: Mapping[str, str]) -> str:
    """The shell for commands, never one from the directory they run in."""
    import shutil

    folders = environ.get("PATH", os.defpath).split(os.pathsep)
    path = os.pathsep.join(folder for folder in folders if os.path.isabs(folder))
    shell = shutil.which("bash", path=path) or shutil.which("sh", path=path)
    if shell is None:
        raise ToolFailed(f"neither bash nor sh was found in {path or 'PATH'}: install one")
    return shell
