"""Glob matching in bounded time, since models and repositories write the patterns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fnmatch import translate  # its expressions do not backtrack into a star
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
    """A glob: `*`, `?` and `[…]` in a name, `**` for any directories, `{a,b}` for alternatives.

    Without a slash it matches names at any depth, otherwise paths from the top.
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
    """All combinations of the alternatives in braces."""
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
    """Compile the expressions. `**` at the end matches the content of a directory, not itself."""
    whole: list[str | None] = []
    for each in expressions:
        if each is not None or whole[-1:] != [None]:  # two in a row are one
            whole.append(each)
    if whole[-1] is None:
        whole.append(translate("*"))
    return tuple(None if each is None else re.compile(each) for each in whole)


def fit(parts: Parts, names: Sequence[str]) -> bool:
    """Whether the parts match exactly these names."""
    last = parts[-1]
    if last is None or not last.match(names[-1]):  # decides for nearly all names
        return False
    at_any_depth = len(parts) == 2 and parts[0] is None
    return at_any_depth or len(parts) in _reached(parts, names)


def _reached(parts: Parts, names: Sequence[str]) -> set[int]:
    """Positions in the parts after matching these names, for all ways to match."""
    at = _skipping(parts, {0})
    for name in names:
        after = set()
        for position in at:
            if position == len(parts):
                continue
            expression = parts[position]
            if expression is None:
                after.add(position)
            elif expression.match(name):
                after.add(position + 1)
        at = _skipping(parts, after)
    return at


def _skipping(parts: Parts, positions: set[int]) -> set[int]:
    """The positions, and those after a `**` that matches nothing."""
    for position in sorted(positions):
        while position < len(parts) and parts[position] is None:
            position += 1
            positions.add(position)
    return positions
