"""The `list_files` tool: lists a directory, or finds files by name."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Mapping
from typing import Any, Final

from holdfast.kernel.tool import Tool, Values
from holdfast.tools.description import description
from holdfast.tools.display_text import on_one_line
from holdfast.tools.files.kind import size
from holdfast.tools.workspace.directory import Directory, PathRefused
from holdfast.tools.workspace.glob import Glob
from holdfast.tools.workspace.walk import DirectoryWalk, WalkEntry

MAX_ENTRIES: Final = 500
MAX_BYTES: Final = 50_000
TIME_LIMIT: Final = 4.0
"""Time limit, shorter than the grace period of a cancelled call: threads cannot be stopped."""

SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "path": {
            "type": "string",
            "description": "The directory to list. Default: the working directory.",
        },
        "pattern": {
            "type": "string",
            "maxLength": 500,
            "description": "Only entries that match this glob, e.g. `*.md` or `src/**/*.py`.",
        },
        "depth": {
            "type": "integer",
            "minimum": 1,
            "description": "How many levels to list. Default: 1, or all of them with a pattern.",
        },
        "all": {
            "type": "boolean",
            "description": "Include ignored files (.gitignore, .git, node_modules …).",
        },
    },
    "additionalProperties": False,
}


def list_files(directory: Directory, *, seconds: float = TIME_LIMIT) -> Tool:
    """The `list_files` tool. `seconds`: time limit, after which a listing is incomplete."""

    async def run(
        path: str = ".", pattern: str = "", depth: int | None = None, all: bool = False
    ) -> str:
        from holdfast.tools.thread import to_end

        if depth is None and not pattern:
            depth = 1
        listing = DirectoryListing(directory, path, pattern, depth, all)
        return await to_end(lambda: listing.text(until=time.monotonic() + seconds))

    return Tool(
        name="list_files",
        description=description(__file__),
        schema=SCHEMA,
        function=run,
        effect="pure",
        describe=label,
    )


def label(values: Values) -> str:
    """Title of a call, for people."""
    path = values.get("path", ".")
    what = values.get("pattern", "")
    if not what:
        return "List files" if path == "." else f"List {on_one_line(path)}"
    return f"List {on_one_line(what)}" + ("" if path == "." else f" in {on_one_line(path)}")


class DirectoryListing:
    """One listing. Raises `PathRefused` or `BadGlob` with a message for the model."""

    def __init__(
        self, directory: Directory, path: str, pattern: str, depth: int | None, all: bool
    ) -> None:
        self._directory = directory
        self._pattern = pattern
        glob = Glob(pattern) if pattern else None
        self._walk = DirectoryWalk(directory, path, all=all, depth=depth, glob=glob)
        self._start = self._walk.start
        self._lines: list[str] = []
        self._bytes = 0
        self._more = 0
        self._left_out = 0

    def text(self, until: float) -> str:
        late = self._late(until)
        return "\n".join((*(self._lines or [self._nothing()]), *self._words(late)))

    def _late(self, until: float) -> bool:
        """Collect the lines; returns whether time was up."""
        try:
            for seen in self._walk:
                self._take(seen)
                if time.monotonic() >= until:
                    return True
        except PathRefused as refused:
            if refused.code == errno.ENOTDIR and self._is_file():
                raise PathRefused(
                    f"{on_one_line(self._start)} is a file: read it, or list the directory it is in"
                ) from refused
            raise
        return False

    def _is_file(self) -> bool:
        try:
            os.close(self._directory.open(self._start))
        except PathRefused:
            return False
        return True

    def _take(self, seen: WalkEntry) -> None:
        if not self._walk.wants(seen):
            return
        if seen.left_out and seen.entry.kind != "directory":
            self._left_out += 1
        elif self._more or len(self._lines) == MAX_ENTRIES:
            self._more += 1
        else:
            line = _line(self._directory, seen)
            self._bytes += len(line.encode()) + 1
            if self._bytes > MAX_BYTES:
                self._more += 1
            else:
                self._lines.append(line)

    def _nothing(self) -> str:
        if self._pattern:
            examined = f"{self._walk.visited:,} entries examined"
            return f"Nothing matches {self._pattern!r} in {on_one_line(self._start)}: {examined}."
        return f"{on_one_line(self._start)} is empty." if not self._left_out else "Nothing to list."

    def _words(self, late: bool) -> list[str]:
        """Notes about what the lines do not show."""
        walk, words = self._walk, []
        if self._more:
            words.append(f"… and {self._more:,} more: narrow it by path, pattern or depth.")
        if late or walk.stopped:
            words.append(f"Incomplete, stopped after {walk.visited:,} entries: narrow the path.")
        if walk.unreadable:
            words.append(f"Directories that could not be read: {walk.unreadable:,}.")
        if self._left_out:
            words.append(
                f"Ignored entries not listed: {self._left_out:,}; set all=true to list them."
            )
        elif walk.left_out and not self._lines:
            words.append("Ignored files were not examined; set all=true to include them.")
        return words


def _line(directory: Directory, seen: WalkEntry) -> str:
    path = on_one_line(seen.path)
    match seen.entry.kind:
        case "file":
            return f"{path}  {size(seen.entry.size)}"
        case "directory":
            return f"{path}/ (not listed)" if seen.left_out else f"{path}/"
        case "link":
            return f"{path} -> {_target(directory, seen.path)}"
        case "other":
            return f"{path} (not a regular file)"


def _target(directory: Directory, path: str) -> str:
    folder, _, name = path.rpartition("/")
    try:
        descriptor = directory.open(folder or ".", os.O_RDONLY | os.O_DIRECTORY)
    except PathRefused:
        return "?"
    try:
        return on_one_line(os.readlink(name, dir_fd=descriptor))
    except OSError:  # deleted, or no longer a link
        return "?"
    finally:
        os.close(descriptor)
