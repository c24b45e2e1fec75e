"""Why a file is not changed."""

from __future__ import annotations

from holdfast.kernel.errors import ToolFailed


class ChangeRefused(ToolFailed):
    """A change that cannot or may not be made, in words for whoever wants it."""

    def __init__(self, words: str) -> None:
        super().__init__(f"{words} Nothing was changed.")
