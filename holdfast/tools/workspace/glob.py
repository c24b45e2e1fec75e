"""Glob matching in bounded time, since models and repositories write the patterns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fnmatch import translate  # its expressions do not go back over what a star has taken
from typing import Final, TypeAlias

from holdfast.kernel.errors import ToolFailed

MAX_ALTERNATIVES: Final = 100
ANY: Final = "**"

Parts: TypeAlias = "tuple[re.Pattern[str] | None, ...]"
"""One expression for each name of a path; None stands for any number of names."""

_BRACES: Final = re.compile(r"\{([^{}]*,[^{}]*)\}")


class BadGlob(ToolFailed):
    """An invalid glob; the message says why."""


class Glob:
    """`*`, `?` and `[…]` within a name, `**` for any directories, `{a,b}` for either.

    Without a slash it means names at any depth, with one it means paths from the top.
    """

    def __init__(self, text: str) -> None:
        self._alternatives = [_compile(one) for one in _expand(text)]

    def matches(self, path: str) -> bool:
        names = path.split("/")
        return any(fit(each, names) for each in self._alternatives)

    def leads_into(self, path: str) -> bool:
        """Whether something in this directory may match."""
        names = path.split("/")
        return any(_reached(each, names) - {len(each)} for each in self._alternatives)


def _expand(text: str) -> list[str]:
    """Every way to choose between what stands in braces."""
    texts = [text]
    while any(map(_BRACES.search, texts)):
        texts = [each for one in texts for each in _expand_first(one)]
        if len(texts) > MAX_ALTERNATIVES:
            raise BadGlob(f"{text!r} has more than {MAX_ALTERNATIVES} alternatives: use fewer")
    return texts


def _expand_first(text: str) -> Iterator[str]:
    found = _BRACES.search(text)
    if found is None:
        yield text
        return
    for choice in found[1].split(","):
        yield text[: found.start()] + choice + text[found.end() :]


def _compile(text: str) -> Parts:
    names = [name for name in text.split("/") if name not in ("", ".")]
    if not names or ".." in names:
        raise BadGlob(f"{text!r} matches no path: use a glob such as *.md or src/**/*.py")
    expressions = [None if name == ANY else translate(name) for name in names]
    return parts(expressions if "/" in text else [None, *expressions])


def parts(expressions: Sequence[str | None]) -> Parts:
    """A `**` at the end is what is in a directory, not the directory."""
    whole: list[str | None] = []
    for each in expressions:
        if each is not None or whole[-1:] != [None]:  # two in a row are one
            whole.append(each)
    if whole[-1] is None:
        whole.append(translate("*"))
    return tuple(None if each is None else re.compile(each) for each in whole)


def fit(parts: Parts, names: Sequence[str]) -> bool:
    """Whether the parts stand for exactly these names."""
    last = parts[-1]
    if last is None or not last.match(names[-1]):  # at once for nearly all names
        return False
    at_any_depth = len(parts) == 2 and parts[0] is None
    return at_any_depth or len(parts) in _reached(parts, names)


def _reached(parts: Parts, names: Sequence[str]) -> set[int]:
    """How many of the parts these names can have used up, in every way at once."""
    at = _skipping(parts, {0})
    for name in names:
        after = set()
        for place in at:
            if place == len(parts):
                continue
            expression = parts[place]
            if expression is None:
                after.add(place)
            elif expression.match(name):
                after.add(place + 1)
        at = _skipping(parts, after)
    return at


def _skipping(parts: Parts, places: set[int]) -> set[int]:
    """The places, and those behind a `**` that stands for nothing."""
    for place in sorted(places):
        while place < len(parts) and parts[place] is None:
            place += 1
            places.add(place)
    return places
