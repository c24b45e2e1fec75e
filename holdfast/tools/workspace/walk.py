"""Walks a directory tree, sorted and as far as needed, leaving out ignored files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from holdfast.tools.workspace.directory import Directory, Entry, PathRefused
from holdfast.tools.workspace.gitignore import FILE, MAX_FILE, Ignored
from holdfast.tools.workspace.glob import Glob

MAX_VISITED: Final = 200_000
"""Entries after which a walk stops; a model has to narrow its question."""


class Seen(Struct, frozen=True):
    path: str
    """Path from the top of the directory."""
    entry: Entry
    left_out: bool
    """Whether it is ignored, and not entered."""


class Walk:
    """An iterator, usable once: sorted by name, the content of a directory right after it.

    Links are seen but not followed. Ignored entries are seen but not entered, unless `all` is set,
    or the walk starts in one: then it was named explicitly.
    """

    def __init__(
        self,
        directory: Directory,
        start: str = ".",
        *,
        all: bool = False,
        depth: int | None = None,
        glob: Glob | None = None,
        limit: int = MAX_VISITED,
    ) -> None:
        """`depth`: 1 is what is in the directory itself. `glob`: seen from the start; a directory
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

    def __iter__(self) -> Iterator[Seen]:
        """Refuses (PathRefused) a start that cannot be listed."""
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

    def _goes_into(self, seen: Seen, depth: int) -> bool:
        return (
            seen.entry.kind == "directory"
            and not seen.left_out
            and (self._depth is None or depth < self._depth)
            and (self._glob is None or self._glob.leads_into(self._below(seen.path)))
        )

    def wants(self, seen: Seen) -> bool:
        """Whether it matches the glob, if there is one."""
        return self._glob is None or self._glob.matches(self._below(seen.path))

    def _below(self, path: str) -> str:
        return path if self.start == "." else path[len(self.start) + 1 :]

    def _level(self, path: str, ignored: Ignored) -> Iterator[tuple[Seen, Ignored]]:
        try:
            # One more than will be looked at, so as to know that there are more.
            entries = self._directory.entries(path, self._limit - self.visited + 1)
        except PathRefused:
            if path == self.start:
                raise
            self.unreadable += 1
            return
        if any(entry.name == FILE and entry.kind == "file" for entry in entries):
            ignored = self._and_file_in(path, ignored)
        for entry in entries:
            inner = joined(path, entry.name)
            left_out = not self._all and ignored.holds(inner, entry.kind == "directory")
            yield Seen(inner, entry, left_out), ignored

    def _ignored_above(self) -> Ignored:
        """The rules about the start, from the directories that it is in.

        A start that is missing is refused first: otherwise each of them would cost a look-up.
        """
        ignored = Ignored()
        os.close(self._directory.open(self.start, os.O_RDONLY | os.O_DIRECTORY))
        if ".." in self.start.split("/"):  # which directories these are only the system knows
            return ignored
        path = "."
        for name in self.start.split("/") if self.start != "." else ():
            ignored = self._and_file_in(path, ignored)
            path = joined(path, name)
            if ignored.holds(path, is_directory=True):
                self._obeys_files = False  # also those inside: caches ignore themselves
                return Ignored()
        return ignored

    def _and_file_in(self, path: str, ignored: Ignored) -> Ignored:
        if not self._obeys_files:
            return ignored
        data = self._directory.read_if_there(joined(path, FILE), MAX_FILE)
        if data is None:
            return ignored
        return ignored.and_file(0 if path == "." else path.count("/") + 1, data)


def joined(path: str, name: str) -> str:
    return name if path == "." else f"{path}/{name}"
