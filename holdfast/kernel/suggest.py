"""Suggestions for misspelled names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

MIN_SIMILARITY: Final = 0.65
"""Similarity, out of 1, from which a name is suggested: one wrong letter in three."""


def nearest(word: str, known: Iterable[str], similarity: float = MIN_SIMILARITY) -> str | None:
    """The known name that is most similar to a word, in any case; None if no name is near."""
    from difflib import get_close_matches  # slow to import, and needed only for what went wrong

    names: dict[str, str] = {}
    for name in known:
        names.setdefault(name.lower(), name)
    near = get_close_matches(word.lower(), names, n=1, cutoff=similarity)
    return names[near[0]] if near else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The nearest known name as the end of a sentence; empty if no name is near."""
    near = nearest(word, known)
    return f": did you mean {near}?" if near else ""


def unknown_name(word: str, known: Iterable[str]) -> str:
    """The nearest known name as the end of a sentence; all of them if no name is near."""
    names = list(known)
    return did_you_mean(word, names) or f": use one of {', '.join(names)}"


def no_agent(name: object, known: Iterable[str]) -> str:
    """The error message for an agent that does not exist."""
    names = list(known)
    listed = ", ".join(names)
    near = nearest(name, names) if isinstance(name, str) else None
    what = f"did you mean {near}? (agents: {listed})" if near else f"use one of {listed}"
    return f"no agent is named {name!r}: {what}"
