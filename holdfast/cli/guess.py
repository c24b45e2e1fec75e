"""What somebody may have meant by a word that there is not."""

from __future__ import annotations

from collections.abc import Iterable


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The nearest of what is known, as the end of a sentence; empty when nothing is near."""
    from difflib import get_close_matches  # slow to import, and needed only for what went wrong

    near = get_close_matches(word.lower(), known, n=1)
    return f": did you mean {near[0]}?" if near else ""
