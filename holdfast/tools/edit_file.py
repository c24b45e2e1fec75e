"""The `edit_file` tool: changes parts of a text file and leaves the rest unchanged."""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, Literal, TypeAlias

from holdfast.kernel.messages import Text, ToolResult
from holdfast.kernel.tool import Tool, ToolContext, Values
from holdfast.tools.description import description
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
from holdfast.tools.thread import to_end
from holdfast.tools.workspace.directory import Directory, PathRefused

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


def edit_file(directory: Directory, *, approval: Literal["never", "ask"] = "ask") -> Tool:
    """The tool that edits files inside a directory. An approval shows the diff."""

    async def validate(context: ToolContext, values: Values) -> None:
        """Refuse an impossible change before a person is asked to approve it."""
        await to_end(partial(plan, directory, context, **values))

    async def preview(context: ToolContext, values: Values) -> str:
        planned = await to_end(partial(plan, directory, context, **values))
        return visible(shortened(planned.diff, MAX_LINES_FOR_PEOPLE))

    async def run(context: ToolContext, path: str, edits: EditArguments) -> ToolResult:
        text, record = await to_end(partial(change, directory, context, path, edits))
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


def expected(directory: Directory, context: ToolContext, path: str) -> str | None:
    """The version the file must have; None if matching the old text is enough.

    That is enough for a file that was never read, and if an earlier call of the same message writes
    to it: the model knows about that change.
    """
    file = directory.settled(path)
    known = seen(context.history, file)
    if known is None:
        return None
    for other in written_before(context.history, context.call_id):
        with suppress(PathRefused):
            if directory.settled(other) == file:
                return None
    return known.version


def plan(
    directory: Directory, context: ToolContext, path: str, edits: EditArguments
) -> PlannedChange:
    """Plan the change. Refuses if the file has changed since it was read."""
    file = directory.relative(path)
    version = expected(directory, context, path)
    try:
        was = directory.read(file, MAX_FILE_BYTES)
    except PathRefused as refusal:
        if refusal.code != errno.ENOENT:
            raise
        raise ChangeRefused(f"{refusal}. To create a new file, use write_file.") from None
    if version is not None and was.version != version:
        raise ChangeRefused(f"{file} has changed since it was read: read it again.")
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


def change(
    directory: Directory, context: ToolContext, path: str, edits: EditArguments
) -> tuple[str, FileRecord]:
    """Apply the change; returns the diff, and a record of the new state."""
    planned = plan(directory, context, path, edits)
    version = carry_out(directory, planned)
    was = planned.was.version if planned.was is not None else None
    record = FileRecord(directory.settled(path), version, was=was)
    return shortened(planned.diff, MAX_LINES_FOR_MODELS), record
