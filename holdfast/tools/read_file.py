"""The `read_file` tool: shows the lines of a text file, or a picture."""

from __future__ import annotations

import errno
import time
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final

from msgspec import Struct

from holdfast.kernel.messages import Content, File, Text, ToolResult
from holdfast.kernel.tool import Tool, ToolContext, Values
from holdfast.kernel.workspace import FileContent, PathRefused, Workspace
from holdfast.tools.blocking_work import compute
from holdfast.tools.description_file import description
from holdfast.tools.display_text import clipped, on_one_line
from holdfast.tools.files.excerpt import READ_SIZE, part
from holdfast.tools.files.kind import kind, picture, size
from holdfast.tools.files.planned_change import MAX_FILE_BYTES, MAX_LINE_SHOWN
from holdfast.tools.files.read_versions import FileRecord, metadata
from holdfast.tools.files.text_file import decode, is_binary, shown

NAME: Final = "read_file"
MAX_LINES: Final = 2_000
MAX_BYTES: Final = 50_000
MAX_PICTURE: Final = 5 * 1024 * 1024
TIME_LIMIT: Final = 4.0
"""Time limit for reading a large file: shorter than the grace period of a cancelled call."""
SAMPLE: Final = 8192
"""Bytes of a large file that decide whether it is text."""

SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "minLength": 1, "description": "The file to read"},
        "offset": {
            "type": "integer",
            "minimum": 1,
            "description": "Number of the first line to show, counted from 1. Default: 1",
        },
        "limit": {
            "type": "integer",
            "minimum": 1,
            "description": f"Maximum number of lines to show. Default: {MAX_LINES}",
        },
    },
    "required": ["path"],
    "additionalProperties": False,
}


def read_file(workspace: Workspace) -> Tool:
    """The tool that reads files of a workspace."""

    async def run(
        context: ToolContext, path: str, offset: float = 1, limit: float = MAX_LINES
    ) -> ToolResult:
        # JSON schema counts 2.0 as an integer.
        content, record = await read(workspace, path, int(offset), int(limit))
        about = None if record is None else metadata(record)
        return ToolResult(context.call_id, NAME, content, metadata=about)

    return Tool(
        name=NAME,
        description=description(__file__),
        schema=SCHEMA,
        function=run,
        effect="pure",
        label="read a file",
        describe=describe,
    )


def describe(values: Values) -> str:
    path, offset = on_one_line(values["path"]), values.get("offset", 1)
    limit = values.get("limit")
    if limit is not None:
        return f"Read {path}, lines {offset}–{offset + limit - 1}"
    return f"Read {path}" if offset == 1 else f"Read {path}, from line {offset}"


async def read(
    workspace: Workspace, path: str, offset: int, limit: int
) -> tuple[tuple[Content, ...], FileRecord | None]:
    """The contents of a file, and a record of what was shown, if it can be changed."""
    file = workspace.relative(path)
    found = await contents(workspace, file)
    if found is None:
        return (Text((await read_large(workspace, file, offset, limit)).text),), None
    return await compute(partial(show, file, found, offset, limit), len(found.data))


def show(
    file: str, found: FileContent, offset: int, limit: int
) -> tuple[tuple[Content, ...], FileRecord]:
    document = decode(found.data)
    if document is None:
        return show_picture(file, found), FileRecord(found.file, found.version)
    lines = document.text.removesuffix("\n").split("\n") if document.text else []
    page = turn_to(lines[offset - 1 :], len(lines), offset, limit)
    record = FileRecord(found.file, found.version, offset, page.last, length=len(page.text))
    return (Text(page.text),), record


async def contents(workspace: Workspace, file: str) -> FileContent | None:
    """Read a file; None if it is too large to be held in memory, or changed."""
    try:
        return await workspace.read(file, MAX_FILE_BYTES)
    except PathRefused as refusal:
        if refusal.code == errno.EFBIG:
            return None
        if refusal.code != errno.EISDIR:
            raise
        words = f"{file} is a directory: use list_files to see what is in it."
        raise PathRefused(words, refusal.code) from None


async def read_large(workspace: Workspace, file: str, offset: int, limit: int) -> NumberedLines:
    """Some lines of a file that is too large to be held in memory."""
    until = time.monotonic() + TIME_LIMIT
    opened = await workspace.open(file)
    try:
        data = await opened.read(READ_SIZE)
        if is_binary(data[:SAMPLE]):
            found = size(opened.size)
            raise PathRefused(f"{file} is {kind(data)} of {found}: too large to be shown.")
        lines = await part(opened, offset, min(limit, MAX_LINES), until, data)
    finally:
        await opened.close()
    return turn_to(lines.lines, lines.total, offset, limit, complete=lines.complete)


def show_picture(file: str, found: FileContent) -> tuple[Content, ...]:
    media_type = picture(found.data)
    what = f"{file} is {kind(found.data)} of {size(len(found.data))}"
    if media_type is None:
        raise PathRefused(f"{what}: only text and pictures can be read.")
    if len(found.data) > MAX_PICTURE:
        raise PathRefused(f"{what}: only pictures of at most {size(MAX_PICTURE)} can be shown.")
    return Text(f"{what}."), File(media_type, file.rpartition("/")[2], found.data)


class NumberedLines(Struct, frozen=True):
    """Some lines of a file, as shown."""

    text: str
    last: int | None
    """The last line up to which everything is shown; None: to the end."""


def turn_to(
    lines: Sequence[str], total: int, offset: int, limit: int, *, complete: bool = True
) -> NumberedLines:
    """The lines from `offset` on, as many as fit, and at which offset to continue.

    `complete`: whether `total` counts the whole file.
    """
    if not complete and offset > total:
        raise PathRefused(
            f"line {offset} was not reached in {TIME_LIMIT:g} s: use a command such as sed or tail."
        )
    if offset > max(1, total):
        count = f"{total} lines" if total != 1 else "1 line"
        raise PathRefused(f"there is no line {offset}: the file has {count}.")
    if not total:
        return NumberedLines("[The file is empty.]", None)
    fitting: list[str] = []
    room = MAX_BYTES
    long: int | None = None
    for number, line in enumerate(islice(lines, min(limit, MAX_LINES))):
        text = f"{offset + number:>5}\t{clipped(shown(line), MAX_LINE_SHOWN)}"
        room -= len(text.encode()) + 1
        if room < 0:
            break
        fitting.append(text)
        if long is None and len(line) > MAX_LINE_SHOWN:
            long = offset + number
    last = offset + len(fitting) - 1
    more = last < total or not complete
    if more:
        count = f"{total}" if complete else f"more than {total}"
        fitting.append(
            f"[Lines {offset}–{last} of {count}. To continue, set offset to {last + 1}.]"
        )
    whole = long - 1 if long is not None else last if more else None
    return NumberedLines("\n".join(fitting), whole)
