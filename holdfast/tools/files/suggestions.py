"""Finds the lines of a text most similar to lines that are not in it. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from heapq import nlargest
from itertools import islice
from typing import Final

from holdfast.tools.display_text import clipped

MAX_SUGGESTED: Final = 6
"""Lines suggested."""
MAX_LINE_WIDTH: Final = 200
"""Characters of each line."""
MAX_OCCURRENCES: Final = 50
"""A line that occurs more often than this is not specific."""
MIN_LINE_LENGTH: Final = 4
"""A line with fewer characters is not specific either."""
MAX_COUNTED_LINES: Final = 5_000
"""Maximum lines whose characters are counted."""
MAX_COUNTED_CHARACTERS: Final = 300
"""Characters of such a line that are counted."""
MAX_COMPARED_LINES: Final = 50
"""Maximum lines that are compared letter by letter, which is slow."""
MIN_SIMILARITY: Final = 0.6
"""Similarity, out of 1, from which a line is suggested."""


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
    last = min(first + MAX_SUGGESTED, start + len(keys), len(lines))
    return [(at + 1, clipped(lines[at], MAX_LINE_WIDTH)) for at in range(first, last)]


def where_most_agree(here: Sequence[str], keys: Sequence[str]) -> int | None:
    """Position where most of the wanted lines match."""
    telling = {key for key in keys if len(key) >= MIN_LINE_LENGTH}
    found: dict[str, list[int]] = defaultdict(list)
    for at, line in enumerate(here):
        if line in telling and len(found[line]) <= MAX_OCCURRENCES:
            found[line].append(at)
    votes = Counter(
        at - offset
        for offset, key in enumerate(keys)
        if len(found.get(key, ())) <= MAX_OCCURRENCES
        for at in found.get(key, ())
    )
    return max(votes, key=lambda start: (votes[start], -start)) if votes else None


def where_one_is_similar(here: Sequence[str], keys: Sequence[str]) -> int | None:
    """Position of a line similar to the longest of the wanted ones."""
    from difflib import SequenceMatcher

    longest = max(keys, key=len)
    matcher = SequenceMatcher(None, b=longest[:MAX_COUNTED_CHARACTERS], autojunk=False)

    def letters(at: int) -> float:
        matcher.set_seq1(here[at][:MAX_COUNTED_CHARACTERS])
        return matcher.quick_ratio()

    def likeness(at: int) -> float:
        matcher.set_seq1(here[at][:MAX_COUNTED_CHARACTERS])
        return matcher.ratio()

    some = (at for at, line in enumerate(here) if 2 * len(longest) >= len(line) >= MIN_LINE_LENGTH)
    promising = nlargest(MAX_COMPARED_LINES, islice(some, MAX_COUNTED_LINES), key=letters)
    found = max(promising, key=likeness, default=None)
    if len(longest) < MIN_LINE_LENGTH or found is None or likeness(found) < MIN_SIMILARITY:
        return None
    return found - keys.index(longest)


def first_difference(here: Sequence[str], keys: Sequence[str]) -> int:
    pairs = zip(here, keys, strict=False)
    return next((at for at, (line, key) in enumerate(pairs) if line != key), 0)
