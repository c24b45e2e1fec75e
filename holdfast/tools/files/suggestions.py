"""Finds the lines of a text most similar to lines that are not in it. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from heapq import nlargest
from itertools import islice
from typing import Final

from holdfast.tools.escape import clipped

SHOWN: Final = 6
"""Lines suggested."""
WIDTH: Final = 200
"""Characters of each line."""
COMMON: Final = 50
"""A line that occurs more often than this is not specific."""
SHORT: Final = 4
"""A line with fewer characters is not specific either."""
COUNTED: Final = 5_000
"""Maximum lines whose letters are counted, and how many of each."""
LETTERS: Final = 300
COMPARED: Final = 50
"""Maximum lines that are compared letter by letter, which is slow."""
SIMILAR: Final = 0.6


def nearest(lines: Sequence[str], wanted: Sequence[str]) -> list[tuple[int, str]]:
    """Numbers and texts of the lines where `wanted` may have been meant; empty if none."""
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
    """Position where most of the wanted lines match."""
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
    """Position of a line similar to the longest of the wanted ones."""
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
