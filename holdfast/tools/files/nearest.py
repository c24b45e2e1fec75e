"""The lines of a text that come nearest to lines that are not in it. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Final

SHOWN: Final = 6
"""Lines that are told of."""
WIDTH: Final = 200
"""Characters of each."""
COMMON: Final = 50
"""A line that is there more often than this says nothing about the place."""
SHORT: Final = 4
"""Nor does a line of fewer characters."""
COMPARED: Final = 5_000
"""Lines that are compared letter by letter at the most, and how much of each."""
LETTERS: Final = 300
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
    return [(at + 1, clipped(lines[at])) for at in range(first, last)]


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

    longest = max(keys, key=len)[:LETTERS]
    if len(longest) < SHORT:
        return None
    matcher = SequenceMatcher(None, b=longest, autojunk=False)
    best, found = SIMILAR, None
    alike = [at for at, line in enumerate(here) if 2 * len(longest) >= len(line) >= SHORT]
    for at in alike[:COMPARED]:
        matcher.set_seq1(here[at][:LETTERS])
        if matcher.real_quick_ratio() < best or matcher.quick_ratio() < best:
            continue
        if (ratio := matcher.ratio()) > best or (found is None and ratio >= best):
            best, found = ratio, at
    return None if found is None else found - keys.index(max(keys, key=len))


def first_difference(here: Sequence[str], keys: Sequence[str]) -> int:
    pairs = zip(here, keys, strict=False)
    return next((at for at, (line, key) in enumerate(pairs) if line != key), 0)


def clipped(line: str) -> str:
    return line if len(line) <= WIDTH else line[:WIDTH] + "…"
