"""The `write_file` tool: writes a whole file, new or in place of one the model has read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, Literal

from holdfast.kernel.messages import Message, Text, ToolResult
from holdfast.kernel.tool import Tool, ToolContext, Values
from holdfast.kernel.workspace import FileContent, Workspace
from holdfast.tools.blocking_work import compute
from holdfast.tools.description_file import description
from holdfast.tools.display_text import on_one_line, visible
from holdfast.tools.files.diff import (
    MAX_LINES_FOR_MODELS,
    MAX_LINES_FOR_PEOPLE,
    invisible_changes,
    shortened,
)
from holdfast.tools.files.kind import kind, size
from holdfast.tools.files.planned_change import (
    MAX_LINE_SHOWN,
    ChangeRefused,
    PlannedChange,
    carry_out,
    current,
)
from holdfast.tools.files.read_versions import FileRecord, KnownVersion, metadata, seen
from holdfast.tools.files.text_file import Document, decode, lone_surrogate, rewritten

NAME: Final = "write_file"
SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "minLength": 1, "description": "The file to write"},
        "content": {"type": "string", "description": "The complete content of the file"},
    },
    "required": ["path", "content"],
    "additionalProperties": False,
}


def write_file(workspace: Workspace, *, approval: Literal["never", "ask"] = "ask") -> Tool:
    """The tool that writes files of a workspace. An approval shows the diff."""

    async def validate(context: ToolContext, values: Values) -> None:
        """Refuse an impossible change before a person is asked to approve it."""
        await plan(workspace, context.history, **values)

    async def preview(context: ToolContext, values: Values) -> str:
        planned = await plan(workspace, context.history, **values)
        diff = await compute(partial(shown, planned, MAX_LINES_FOR_PEOPLE), planned.size)
        return visible(diff) or f"{planned.file} already has exactly this content."

    async def run(context: ToolContext, path: str, content: str) -> ToolResult:
        text, record = await write(workspace, context.history, path, content)
        return ToolResult(context.call_id, NAME, (Text(text),), metadata=metadata(record))

    return Tool(
        name=NAME,
        description=description(__file__),
        schema=SCHEMA,
        function=run,
        effect="once",  # run again, it might overwrite a change made meanwhile
        approval=approval,
        label="write a file",
        describe=lambda values: f"Write {on_one_line(values['path'])}",
        validate=validate,
        preview=preview,
    )


async def plan(
    workspace: Workspace, history: Sequence[Message], path: str, content: str
) -> PlannedChange:
    """Plan the new content. Refuses to replace a file that the model has not read."""
    if lone := lone_surrogate(content):
        raise ChangeRefused(f"content contains a lone surrogate ({lone}), which cannot be written.")
    file = workspace.relative(path)
    was = await current(workspace, file)
    size = len(content) + (0 if was is None else len(was.data))
    return await compute(partial(replacement, file, was, content, history), size)


def replacement(
    file: str, was: FileContent | None, content: str, history: Sequence[Message]
) -> PlannedChange:
    """Plan to give a file another content."""
    old = None if was is None else decode(was.data)
    planned = PlannedChange(file, was, old, rewritten(old, content))
    if was is not None and was.data not in (b"", planned.data):
        if why := unseen(file, was, old, seen(history, was.file)):
            raise ChangeRefused(why)
        if old is not None and "\ufffd" in content and lone_surrogate(old.text):
            raise ChangeRefused(
                f"{file} has bytes that are not UTF-8, shown as \ufffd, which would be lost. "
                "Change the other parts with edit_file, or remove \ufffd."
            )
    return planned


def unseen(file: str, was: FileContent, old: Document | None, known: KnownVersion | None) -> str:
    """Why a file must not be replaced, given what the model knows of it; empty if it may."""
    if known is None:
        return f"{file} exists and was not read: read it first."
    if known.version != was.version:
        return f"{file} has changed since it was read: read it again."
    if known.next is None:
        return ""
    if old is not None and len(old.text.split("\n")[known.next - 1]) > MAX_LINE_SHOWN:
        return (
            f"line {known.next} of {file} is longer than read_file shows: "
            "change the file with edit_file."
        )
    return (
        f"only part of {file} was read: read the rest first, from line {known.next} on, "
        "or change the part with edit_file."
    )


def shown(planned: PlannedChange, most: int) -> str:
    """The diff, after a line about what it does not show."""
    words = ""
    if planned.old is not None:
        words = invisible_changes(planned.old, planned.new)
    elif planned.was is not None:
        words = f"{kind(planned.was.data)}, {size(len(planned.was.data))}, is replaced"
    diff = shortened(planned.diff, most)
    return "\n".join(filter(None, [f"({words})" if words else "", diff]))


async def write(
    workspace: Workspace, history: Sequence[Message], path: str, content: str
) -> tuple[str, FileRecord]:
    """Write the file; returns what was done, and a record of the new state."""
    planned = await plan(workspace, history, path, content)
    was = planned.was
    if was is not None and was.data == planned.data:
        text = f"{planned.file} already has exactly this content: nothing was changed."
        return text, FileRecord(was.file, was.version)
    file = await workspace.resolve(path) if was is None else was.file
    version = await carry_out(workspace, planned)
    text = await compute(partial(report, planned), planned.size)
    return text, FileRecord(file, version)


def report(planned: PlannedChange) -> str:
    """The result of the call, for the model."""
    lines = len(planned.new.text.removesuffix("\n").split("\n")) if planned.new.text else 0
    count = f"{lines} lines" if lines != 1 else "1 line"
    text = f"Wrote {planned.file} ({count}, {size(len(planned.data))})"
    if planned.was is None:
        return f"{text}: a new file."
    return f"{text}, replacing its content:\n{shown(planned, MAX_LINES_FOR_MODELS)}"
