"""A file that is to become another: what it is, what it shall be, and the step between them.

Made once to be shown to whoever has to agree, and once more to be carried out: what it was made on
may have changed in between.
"""

from __future__ import annotations

import errno
from typing import Final

from msgspec import Struct

from holdfast.kernel.errors import ToolFailed
from holdfast.tools.files.diff import unified
from holdfast.tools.files.document import Document, encode
from holdfast.tools.workspace.directory import Content, Directory, PathRefused
from holdfast.tools.workspace.replace import version

LIMIT: Final = 10 * 1024 * 1024
"""Bytes of a file that is read, edited or replaced."""
MAX_LINE: Final = 2_000
"""Characters of a line that are shown to the model."""


class ChangeRefused(ToolFailed):
    """A change that cannot or may not be made, in words for whoever wants it."""

    def __init__(self, words: str) -> None:
        super().__init__(f"{words} Nothing was changed.")


class Plan(Struct, frozen=True):
    """What a file is to become."""

    file: str
    """Its path, relative to the directory."""
    was: Content | None
    """None: it is not there."""
    old: Document | None
    """None also when it is no text."""
    new: Document

    @property
    def data(self) -> bytes:
        return encode(self.new)

    @property
    def diff(self) -> str:
        return unified(self.file, None if self.old is None else self.old.text, self.new.text)


def current(directory: Directory, file: str) -> Content | None:
    """What a file holds; None when there is none."""
    try:
        return directory.read(file, LIMIT)
    except PathRefused as refusal:
        if refusal.code != errno.ENOENT:
            raise
        return None


def carry_out(directory: Directory, plan: Plan) -> str:
    """Write the file, if it still is what the plan was made on. The version that it now has."""
    data = plan.data
    directory.write(plan.file, data, unless_changed=plan.was.version if plan.was else "")
    return version(data)
