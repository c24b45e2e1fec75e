"""Walks a directory tree lazily, sorted by name, and does not enter ignored directories."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from holdfast.kernel.workspace import DirectoryEntry, PathRefused
from holdfast.tools.workspace.gitignore import IGNORE_FILE, MAX_IGNORE_FILE, IgnoreRules
from holdfast.tools.workspace.glob import Glob
from holdfast.tools.workspace.tree import Tree

MAX_VISITED: Final = 200_000
"""Entries after which a walk stops; the model has to narrow its request."""


class WalkEntry(Struct, frozen=True):
    """An entry that a walk has found."""

    path: str
    """Path from the top of the directory."""
    entry: DirectoryEntry
    left_out: bool
    """Whether the entry is ignored, and so not entered."""


class DirectoryWalk:
    """An iterator, usable once: sorted by name, the content of a directory right after it.

    Links are yielded but not followed. Ignored entries are yielded but not entered, unless `all` is
    set or the walk starts in one, which was then named explicitly.
    """

    def __init__(
        self,
        directory: Tree,
        start: str = ".",
        *,
        all: bool = False,
        depth: int | None = None,
        glob: Glob | None = None,
        limit: int = MAX_VISITED,
    ) -> None:
        """`depth`: 1 for the entries of the start alone. `glob`: relative to the start; a directory
        in which nothing can match is not entered."""
        self._directory = directory
        self.start = directory.relative(start).rstrip("/") or "."
        """Path from the top of the directory."""
        self._all = all
        self._obeys_files = not all
        self._depth = depth
        self._glob = glob
        self._limit = limit
        self.visited = 0
        self.unreadable = 0
        """Number of directories that could not be listed."""
        self.left_out = 0
        """Number of ignored entries."""
        self.stopped = False
        """Whether the limit was reached."""

    def __iter__(self) -> Iterator[WalkEntry]:
        """Yield the entries. Raises `PathRefused` if the start cannot be listed."""
        levels = [self._level(self.start, self._ignored_above())]
        while levels:
            found = next(levels[-1], None)
            if found is None:
                levels.pop()
                continue
            if self.visited >= self._limit:
                self.stopped = True
                return
            seen, ignored = found
            self.visited += 1
            self.left_out += seen.left_out
            yield seen
            if self._goes_into(seen, len(levels)):
                levels.append(self._level(seen.path, ignored))

    def _goes_into(self, seen: WalkEntry, depth: int) -> bool:
        return (
            seen.entry.kind == "directory"
            and not seen.left_out
            and (self._depth is None or depth < self._depth)
            and (self._glob is None or self._glob.leads_into(self._below(seen.path)))
        )

    def wants(self, seen: WalkEntry) -> bool:
        """Whether it matches the glob, if there is one."""
        return self._glob is None or self._glob.matches(self._below(seen.path))

    def _below(self, path: str) -> str:
        return path if self.start == "." else path[len(self.start) + 1 :]

    def _level(self, path: str, ignored: IgnoreRules) -> Iterator[tuple[WalkEntry, IgnoreRules]]:
        try:
            # One more than the limit, to know whether there are more.
            entries = self._directory.entries(path, self._limit - self.visited + 1)
        except PathRefused:
            if path == self.start:
                raise
            self.unreadable += 1
            return
        if any(entry.name == IGNORE_FILE and entry.kind == "file" for entry in entries):
            ignored = self._and_file_in(path, ignored)
        for entry in entries:
            inner = joined(path, entry.name)
            left_out = not self._all and ignored.holds(inner, entry.kind == "directory")
            yield WalkEntry(inner, entry, left_out), ignored

    def _ignored_above(self) -> IgnoreRules:
        """The ignore rules for the start, from the directories above it.

        A missing start is refused first: otherwise each of the directories would cost a look-up.
        """
        ignored = IgnoreRules()
        self._directory.entries(self.start, 0)
        if ".." in self.start.split("/"):  # only the system knows which directories these are
            return ignored
        path = "."
        for name in self.start.split("/") if self.start != "." else ():
            ignored = self._and_file_in(path, ignored)
            path = joined(path, name)
            if ignored.holds(path, is_directory=True):
                self._obeys_files = False  # also those inside: a cache ignores itself
                return IgnoreRules()
        return ignored

    def _and_file_in(self, path: str, ignored: IgnoreRules) -> IgnoreRules:
        if not self._obeys_files:
            return ignored
        data = self._directory.read_if_there(joined(path, IGNORE_FILE), MAX_IGNORE_FILE)
        if data is None:
            return ignored
        return ignored.and_file(0 if path == "." else path.count("/") + 1, data)


def joined(path: str, name: str) -> str:
    return name if path == "." else f"{path}/{name}"
