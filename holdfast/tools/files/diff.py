"""Unified diffs of text, for people and models. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Final, TypeAlias

from holdfast.tools.display_text import clipped, on_one_line
from holdfast.tools.files.text_file import Document, agreeing, shown

CONTEXT_LINES: Final = 3
"""Unchanged lines shown around a change."""
MAX_COMPARED_PAIRS: Final = 300_000
"""Pairs of equal lines that are compared, to bound the time. Beyond that, everything between two
lines that surely match is shown as changed."""
NO_NEWLINE: Final = "\\ No newline at end of file"

MAX_LINES_FOR_PEOPLE: Final = 2_000
MAX_LINES_FOR_MODELS: Final = 400
"""Lines of a diff shown to a model."""
MAX_LINE_WIDTH: Final = 1_000
"""Characters of a line shown."""
MAX_DIFF_BYTES: Final = 48_000
"""Bytes shown in total."""

LineBlock: TypeAlias = tuple[int, int, int, int]
"""Start and end of lines in the old text, and of those that replace them in the new."""
Pair: TypeAlias = tuple[int, int]
"""Numbers of equal lines in the old and the new text."""


def unified(path: str, old: str | None, new: str) -> str:
    """The whole diff of two texts; empty if they are equal. `old` is None for a new file."""
    if old == new:
        return ""
    name = on_one_line(path)
    a, b = split(old or ""), split(new)
    hunks = (hunk(a, b, group) for group in grouped(blocks(a, b)))
    head = ("--- /dev/null" if old is None else f"--- a/{name}", f"+++ b/{name}")
    return "\n".join([*head, *chain.from_iterable(hunks)])


def invisible_changes(old: Document, new: Document) -> str:
    """Changes that a diff does not show: line endings and encoding."""
    changes = []
    if old.style and new.style and old.style != new.style:
        changes.append(f"line endings: {old.style} becomes {new.style}")
    elif old.text == new.text and old.endings != new.endings:
        changes.append("line endings change")
    if (old.encoding, old.bom) != (new.encoding, new.bom):
        changes.append(f"encoding: {_encoding(old)} becomes {_encoding(new)}")
    return "; ".join(changes)


def _encoding(document: Document) -> str:
    return document.encoding.upper() + (" with a byte order mark" if document.bom else "")


def split(text: str) -> list[str]:
    """The lines of a text, with their ends: a last line without one is a different line."""
    lines = [f"{line}\n" for line in text.split("\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines


def blocks(a: Sequence[str], b: Sequence[str]) -> list[LineBlock]:
    """The changes between two texts, in order."""
    found: list[LineBlock] = []
    room = MAX_COMPARED_PAIRS
    for gap in gaps(a, b):
        pairs = list(islice(equal_pairs(a, b, gap), max(0, room) + 1))
        room -= len(pairs)
        found += between(rising(pairs), gap) if room >= 0 else [gap]
    return found


def gaps(a: Sequence[str], b: Sequence[str]) -> Iterator[LineBlock]:
    """The gaps between lines that surely match: the ends of the texts, lines that occur once in
    both and in the same order, and equal lines next to these."""
    whole = trimmed(a, b, (0, len(a), 0, len(b)))
    at_a, last_a, at_b, last_b = whole
    for a2, b2 in [*anchors(a, b, whole), (last_a, last_b)]:
        gap = trimmed(a, b, (at_a, a2, at_b, b2))
        if gap[0] < gap[1] or gap[2] < gap[3]:
            yield gap
        at_a, at_b = a2, b2  # the anchor is compared again, and matches


def trimmed(a: Sequence[str], b: Sequence[str], block: LineBlock) -> LineBlock:
    """A block without the equal lines at its ends."""
    a1, a2, b1, b2 = block
    head = agreeing(a[a1:a2], b[b1:b2])
    tail = agreeing(a[a1 + head : a2][::-1], b[b1 + head : b2][::-1])
    return a1 + head, a2 - tail, b1 + head, b2 - tail


def anchors(a: Sequence[str], b: Sequence[str], block: LineBlock) -> list[Pair]:
    """Pairs of lines that occur exactly once in both: as many as are in the same order."""
    a1, a2, b1, b2 = block
    where = places_of_single(b, b1, b2)
    singles = places_of_single(a, a1, a2).items()
    return rising([(at, where[line]) for line, at in singles if line in where])


def rising(pairs: Sequence[Pair]) -> list[Pair]:
    """The longest sequence of pairs in which both numbers increase. The input has the first number
    increasing; where it is equal, the second decreases."""
    lowest: list[int] = []  # by length of a sequence: the smallest second number that ends one
    ends: list[int] = []  # by length of a sequence: the position of that pair
    before: list[int] = []  # for each pair, the position of its predecessor; -1: none
    for position, (_, place) in enumerate(pairs):
        length = bisect_left(lowest, place)
        before.append(ends[length - 1] if length else -1)
        lowest[length : length + 1] = [place]
        ends[length : length + 1] = [position]
    row: list[Pair] = []
    at = ends[-1] if ends else -1
    while at >= 0:
        row.append(pairs[at])
        at = before[at]
    return row[::-1]


def places_of_single(lines: Sequence[str], start: int, end: int) -> dict[str, int]:
    """Position of each line that occurs once, in order."""
    times = Counter(lines[start:end])
    return {lines[at]: at for at in range(start, end) if times[lines[at]] == 1}


def equal_pairs(a: Sequence[str], b: Sequence[str], gap: LineBlock) -> Iterator[Pair]:
    """Every line of the old text with every equal line of the new one."""
    a1, a2, b1, b2 = gap
    places: dict[str, list[int]] = {}
    for at in reversed(range(b1, b2)):
        places.setdefault(b[at], []).append(at)
    return ((at, place) for at in range(a1, a2) for place in places.get(a[at], ()))


def between(row: Sequence[Pair], gap: LineBlock) -> Iterator[LineBlock]:
    """The rest of a gap when the lines of these pairs match."""
    a1, a2, b1, b2 = gap
    for at_a, at_b in (*row, (a2, b2)):
        if a1 < at_a or b1 < at_b:
            yield a1, at_a, b1, at_b
        a1, b1 = at_a + 1, at_b + 1


def grouped(changes: Sequence[LineBlock]) -> Iterator[list[LineBlock]]:
    """Group changes whose context would touch."""
    group: list[LineBlock] = []
    for change in changes:
        if group and change[0] - group[-1][1] > 2 * CONTEXT_LINES:
            yield group
            group = []
        group.append(change)
    if group:
        yield group


def hunk(a: Sequence[str], b: Sequence[str], group: Sequence[LineBlock]) -> Iterator[str]:
    before = min(CONTEXT_LINES, group[0][0])
    after = min(CONTEXT_LINES, len(a) - group[-1][1])
    start_a, end_a = group[0][0] - before, group[-1][1] + after
    start_b, end_b = group[0][2] - before, group[-1][3] + after
    yield f"@@ -{extent(start_a, end_a)} +{extent(start_b, end_b)} @@"
    at = start_a
    for a1, a2, b1, b2 in group:
        yield from marked(" ", a[at:a1])
        yield from marked("-", a[a1:a2])
        yield from marked("+", b[b1:b2])
        at = a2
    yield from marked(" ", a[at:end_a])


def extent(start: int, end: int) -> str:
    """Start and number of lines; for none, the line they would follow."""
    count = end - start
    if count == 1:
        return str(start + 1)
    return f"{start + 1 if count else start},{count}"


def marked(mark: str, lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        yield mark + line.removesuffix("\n")
        if not line.endswith("\n"):
            yield NO_NEWLINE


def shortened(diff: str, most: int) -> str:
    """The diff cut to `most` lines of limited width, with a note about what is omitted."""
    lines = [clipped(line, MAX_LINE_WIDTH) for line in shown(diff).split("\n")]
    kept: list[str] = []
    room = MAX_DIFF_BYTES
    for line in lines[:most]:
        room -= len(line.encode()) + 1
        if room < 0:
            break
        kept.append(line)
    if left := len(lines) - len(kept):
        kept.append(f"[… {left} more lines of this diff not shown …]")
    return "\n".join(kept)
