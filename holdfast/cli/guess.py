"""What somebody may have meant by a word that there is not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

NEAR: Final = 0.65
"""How alike two words are, of 1, when one may stand for the other: one wrong letter in three."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The nearest of what is known, as the end of a sentence; empty when nothing is near."""
    from difflib import get_close_matches  # slow to import, and needed only for what went wrong

    near = get_close_matches(word.lower(), known, n=1, cutoff=NEAR)
    return f": did you mean {near[0]}?" if near else ""
