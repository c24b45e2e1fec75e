"""Suggestions for misspelled names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

MIN_SIMILARITY: Final = 0.65
"""Similarity, out of 1, from which a name is suggested: one wrong letter in three."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The nearest known name as the end of a sentence; empty if none is near."""
    from difflib import get_close_matches  # slow to import, and needed only for what went wrong

    near = get_close_matches(word.lower(), known, n=1, cutoff=MIN_SIMILARITY)
    return f": did you mean {near[0]}?" if near else ""
