"""The query of a search for text in files."""

from __future__ import annotations

from msgspec import Struct


class SearchQuery(Struct, frozen=True):
    pattern: str
    path: str = "."
    literal: bool = False
    glob: str = ""
    ignore_case: bool = False
    context: int = 0
    all: bool = False
    max_results: int = 100
    seconds: float = 60.0
    """Time after which it stops and returns what was found."""
