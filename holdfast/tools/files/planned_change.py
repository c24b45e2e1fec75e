"""A planned change of a file: its current content, the new one, and the replacement.

The plan is made for the approval, and again before it is carried out: the file may have changed
in between.
"""

from __future__ import annotations

import errno
from typing import Final

from msgspec import Struct

from holdfast.kernel.errors import ExpectedFailure
from holdfast.kernel.workspace import FileContent, PathRefused, Workspace
from holdfast.tools.files.diff import unified
from holdfast.tools.files.text_file import Document, encode

MAX_FILE_BYTES: Final = 10 * 1024 * 1024
"""Maximum bytes of a file that is read, edited or replaced."""
MAX_LINE_SHOWN: Final = 2_000
"""Characters of a line shown to the model."""


class ChangeRefused(ExpectedFailure):
    """A change cannot or must not be made; the message says why."""

    def __init__(self, words: str) -> None:
        super().__init__(f"{words} Nothing was changed.")


class PlannedChange(Struct, frozen=True):
    """The planned content of a file."""

    file: str
    """Path relative to the top directory."""
    was: FileContent | None
    """Current content; None if there is no file."""
    old: Document | None
    """Current text; None also if it is not text."""
    new: Document

    @property
    def size(self) -> int:
        """Bytes of both contents, about: how long it takes to compare them."""
        return len(self.new.text) + (0 if self.was is None else len(self.was.data))

    @property
    def data(self) -> bytes:
        return encode(self.new)

    @property
    def diff(self) -> str:
        return unified(self.file, None if self.old is None else self.old.text, self.new.text)


async def current(workspace: Workspace, file: str) -> FileContent | None:
    """The content of a file; None if there is none."""
    try:
        return await workspace.read(file, MAX_FILE_BYTES)
    except PathRefused as refusal:
        if refusal.code != errno.ENOENT:
            raise
        return None


async def carry_out(workspace: Workspace, plan: PlannedChange) -> str:
    """Write the file, unless it has changed since the plan was made; returns its new version."""
    expected = plan.was.version if plan.was else ""
    return await workspace.replace(plan.file, plan.data, expected=expected)
