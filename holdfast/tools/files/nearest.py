"""The lines of a text that come nearest to lines that are not in it. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from heapq import nlargest
from itertools import islice
from typing import Final

from holdfast.tools.visible import clipped

SHOWN: Final = 6
"""Lines that are told of."""
WIDTH: Final = 200
"""Characters of each."""
COMMON: Final = 50
"""A line that is there more often than this says nothing about the place."""
SHORT: Final = 4
"""Nor does a line of fewer characters."""
COUNTED: Final = 5_000
"""Lines whose letters are counted at the most, and how many of each."""
LETTERS: Final = 300
COMPARED: Final = 50
"""Of these, lines that are compared letter by letter, which takes long."""
SIMILAR: Final = 0.6


def nearest(lines: Sequence[str], wanted: Sequence[str]) -> list[tuple[int, str]]:
    """Numbers and texts of the lines where `wanted` may have been meant; none when nowhere."""
    here = [line.strip() for line in lines]
    keys = [line.strip() for line in wanted]
    start = where_most_agree(here, keys)
    if start is None:
        start = where_one_is_similar(here, keys)
    if start is None:
        return []
    begin = max(0, start)
    first = begin + max(0, first_difference(here[begin:], keys[begin - start :]) - 1)
    last = min(first + SHOWN, start + len(keys), len(lines))
    return [(at + 1, clipped(lines[at], WIDTH)) for at in range(first, last)]


def where_most_agree(here: Sequence[str], keys: Sequence[str]) -> int | None:
    """Where most of the wanted lines are at their places."""
    telling = {key for key in keys if len(key) >= SHORT}
    found: dict[str, list[int]] = defaultdict(list)
    for at, line in enumerate(here):
        if line in telling and len(found[line]) <= COMMON:
            found[line].append(at)
    votes = Counter(
        at - offset
        for offset, key in enumerate(keys)
        if len(found.get(key, ())) <= COMMON
        for at in found.get(key, ())
    )
    return max(votes, key=lambda start: (votes[start], -start)) if votes else None


def where_one_is_similar(here: Sequence[str], keys: Sequence[str]) -> int | None:
    """Where a line stands that is like the longest of the wanted ones."""
    from difflib import SequenceMatcher

    longest = max(keys, key=len)
    matcher = SequenceMatcher(None, b=longest[:LETTERS], autojunk=False)

    def letters(at: int) -> float:
        matcher.set_seq1(here[at][:LETTERS])
        return matcher.quick_ratio()

    def likeness(at: int) -> float:
        matcher.set_seq1(here[at][:LETTERS])
        return matcher.ratio()

    some = (at for at, line in enumerate(here) if 2 * len(longest) >= len(line) >= SHORT)
    promising = nlargest(COMPARED, islice(some, COUNTED), key=letters)
    found = max(promising, key=likeness, default=None)
    if len(longest) < SHORT or found is None or likeness(found) < SIMILAR:
        return None
    return found - keys.index(longest)


def first_difference(here: Sequence[str], keys: Sequence[str]) -> int:
    pairs = zip(here, keys, strict=False)
    return next((at for at, (line, key) in enumerate(pairs) if line != key), 0)
