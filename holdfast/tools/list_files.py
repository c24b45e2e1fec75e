"""The `list_files` tool: lists a directory, or finds files by name."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping
from typing import Any, Final

from holdfast.kernel.tool import Tool, Values
from holdfast.kernel.workspace import PathRefused, Workspace
from holdfast.tools.description_file import description
from holdfast.tools.display_text import on_one_line
from holdfast.tools.files.kind import size
from holdfast.tools.workspace.walk import WalkEntry
from holdfast.tools.workspace.walk_query import WalkQuery, WalkResult, walk_workspace

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


def list_files(workspace: Workspace, *, seconds: float = TIME_LIMIT) -> Tool:
    """The `list_files` tool. `seconds`: time limit, after which a listing is incomplete."""

    async def run(
        path: str = ".", pattern: str = "", depth: int | None = None, all: bool = False
    ) -> str:
        if depth is None and not pattern:
            depth = 1
        start = workspace.relative(path).rstrip("/") or "."
        query = WalkQuery(MAX_ENTRIES, seconds, start, pattern, depth, all)
        try:
            result = await walk_workspace(workspace, query)
        except PathRefused as refused:
            if refused.code == errno.ENOTDIR and await _is_file(workspace, start):
                raise PathRefused(
                    f"{on_one_line(start)} is a file: read it, or list the directory it is in"
                ) from refused
            raise
        return listing(query, result)

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


async def _is_file(workspace: Workspace, path: str) -> bool:
    try:
        return (await workspace.stat(path)).kind == "file"
    except PathRefused:
        return False


def listing(query: WalkQuery, result: WalkResult) -> str:
    """The text for the model: a line for each entry that fits, and notes about the others."""
    lines: list[str] = []
    room = MAX_BYTES
    for seen in result.entries:
        line = _line(seen)
        room -= len(line.encode()) + 1
        if room < 0:
            break
        lines.append(line)
    more = result.more + len(result.entries) - len(lines)
    return "\n".join((*(lines or [_nothing(query, result)]), *_notes(result, more, not lines)))


def _nothing(query: WalkQuery, result: WalkResult) -> str:
    start = on_one_line(query.path)
    if query.glob:
        examined = f"{result.visited:,} entries examined"
        return f"Nothing matches {query.glob!r} in {start}: {examined}."
    return f"{start} is empty." if not result.ignored else "Nothing to list."


def _notes(result: WalkResult, more: int, nothing: bool) -> Iterator[str]:
    """Notes about everything that the lines do not show."""
    if more:
        yield f"… and {more:,} more: narrow it by path, pattern or depth."
    if result.stopped:
        yield f"Incomplete, stopped after {result.visited:,} entries: narrow the path."
    if result.unreadable:
        yield f"Directories that could not be read: {result.unreadable:,}."
    if result.ignored:
        yield f"Ignored entries not listed: {result.ignored:,}; set all=true to list them."
    elif result.left_out and nothing:
        yield "Ignored files were not examined; set all=true to include them."


def _line(seen: WalkEntry) -> str:
    path = on_one_line(seen.path)
    match seen.entry.kind:
        case "file":
            return f"{path}  {size(seen.entry.size)}"
        case "directory":
            return f"{path}/ (not listed)" if seen.left_out else f"{path}/"
        case "link":
            return f"{path} -> {on_one_line(seen.entry.target)}"
        case "other":
            return f"{path} (not a regular file)"
