"""Names of types and forms as providers accept them."""

from __future__ import annotations

import re
from typing import Final

DEFAULT_NAME: Final = "answer"
"""Name of a form without a name of its own."""


def as_name(text: str) -> str:
    """The text as a name that providers accept, without the brackets of `Page[int]`."""
    return re.sub(r"[^A-Za-z0-9_-]+", "_", text).strip("_")[:64] or DEFAULT_NAME
