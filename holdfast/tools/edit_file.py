"""The `edit_file` tool: changes parts of a text file and leaves the rest unchanged."""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, Literal, TypeAlias

from holdfast.kernel.messages import Text, ToolResult
from holdfast.kernel.tool import Tool, ToolContext, Values
from holdfast.kernel.workspace import FileContent, PathRefused, Workspace
from holdfast.tools.blocking_work import to_end
from holdfast.tools.description_file import description
from holdfast.tools.display_text import on_one_line, visible
from holdfast.tools.files.diff import MAX_LINES_FOR_MODELS, MAX_LINES_FOR_PEOPLE, shortened
from holdfast.tools.files.edits import Edit, EditError, apply
from holdfast.tools.files.kind import kind
from holdfast.tools.files.planned_change import (
    MAX_FILE_BYTES,
    ChangeRefused,
    PlannedChange,
    carry_out,
)
from holdfast.tools.files.read_versions import FileRecord, metadata, seen, written_before
from holdfast.tools.files.text_file import decode

EditArguments: TypeAlias = Sequence[Mapping[str, Any]]

NAME: Final = "edit_file"
EDIT: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "old_text": {
            "type": "string",
            "description": "The text to replace, exactly as it is in the file",
        },
        "new_text": {"type": "string", "description": "The replacement"},
        "replace_all": {
            "type": "boolean",
            "description": "Whether to replace every occurrence. Default: false",
        },
    },
    "required": ["old_text", "new_text"],
    "additionalProperties": False,
}
SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "minLength": 1, "description": "The file to change"},
        "edits": {
            "type": "array",
            "minItems": 1,
            "maxItems": 200,
            "items": EDIT,
            "description": "Replacements, applied in order; all of them or none",
        },
    },
    "required": ["path", "edits"],
    "additionalProperties": False,
}


def edit_file(workspace: Workspace, *, approval: Literal["never", "ask"] = "ask") -> Tool:
    """The tool that edits files of a workspace. An approval shows the diff."""

    async def validate(context: ToolContext, values: Values) -> None:
        """Refuse an impossible change before a person is asked to approve it."""
        await plan(workspace, context, **values)

    async def preview(context: ToolContext, values: Values) -> str:
        planned = await plan(workspace, context, **values)
        return visible(await to_end(partial(diff, planned, MAX_LINES_FOR_PEOPLE)))

    async def run(context: ToolContext, path: str, edits: EditArguments) -> ToolResult:
        text, record = await change(workspace, context, path, edits)
        return ToolResult(context.call_id, NAME, (Text(text),), metadata=metadata(record))

    return Tool(
        name=NAME,
        description=description(__file__),
        schema=SCHEMA,
        function=run,
        effect="once",
        approval=approval,
        label="edit a file",
        describe=describe,
        validate=validate,
        preview=preview,
    )


def describe(values: Values) -> str:
    count = len(values["edits"])
    return f"Edit {on_one_line(values['path'])}" + (f" ({count} changes)" if count > 1 else "")


async def expected(workspace: Workspace, context: ToolContext, file: str) -> str | None:
    """The version the file must have; None if matching the old text is enough.

    That is enough for a file that was never read, and if an earlier call of the same message writes
    to it: the model knows about that change. `file`: from `Workspace.resolve`.
    """
    known = seen(context.history, file)
    if known is None:
        return None
    for other in written_before(context.history, context.call_id):
        with suppress(PathRefused):
            if await workspace.resolve(other) == file:
                return None
    return known.version


async def plan(
    workspace: Workspace, context: ToolContext, path: str, edits: EditArguments
) -> PlannedChange:
    """Plan the change. Refuses if the file has changed since it was read."""
    file = workspace.relative(path)
    try:
        was = await workspace.read(file, MAX_FILE_BYTES)
    except PathRefused as refusal:
        if refusal.code != errno.ENOENT:
            raise
        raise ChangeRefused(f"{refusal}. To create a new file, use write_file.") from None
    version = await expected(workspace, context, was.file)
    if version is not None and was.version != version:
        raise ChangeRefused(f"{file} has changed since it was read: read it again.")
    return await to_end(partial(edited, file, was, edits))


def edited(file: str, was: FileContent, edits: EditArguments) -> PlannedChange:
    """Apply the edits to a content."""
    old = decode(was.data)
    if old is None:
        raise ChangeRefused(f"{file} is {kind(was.data)}: only text can be edited.")
    try:
        new = apply(old, [Edit(**edit) for edit in edits])
    except EditError as problem:
        raise ChangeRefused(str(problem)) from None
    if new.text == old.text:
        raise ChangeRefused(f"these edits do not change {file}.")
    return PlannedChange(file, was, old, new)


async def change(
    workspace: Workspace, context: ToolContext, path: str, edits: EditArguments
) -> tuple[str, FileRecord]:
    """Apply the change; returns the diff, and a record of the new state."""
    planned = await plan(workspace, context, path, edits)
    assert planned.was is not None
    version = await carry_out(workspace, planned)
    record = FileRecord(planned.was.file, version, was=planned.was.version)
    return await to_end(partial(diff, planned, MAX_LINES_FOR_MODELS)), record


def diff(planned: PlannedChange, most: int) -> str:
    return shortened(planned.diff, most)
