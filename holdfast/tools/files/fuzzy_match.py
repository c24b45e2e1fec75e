"""Finds lines that were not given exactly as they are in the file. Pure.

Trailing spaces and look-alike characters are ignored, and then also the indentation, if the
difference is the same for all lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Final, TypeAlias

from holdfast.tools.files.text_file import TextChange, agreeing

MAX_COMPARED_LINES: Final = 50_000
"""Lines whose indentation is compared. Beyond that, nothing is found."""
TAB_WIDTHS: Final = (4, 2, 8, 3)
"""Numbers of spaces that may stand for a tab."""
LOOK_ALIKES: Final = str.maketrans(
    {
        **dict.fromkeys("\u00a0\u1680\u202f\u205f\u3000", " "),
        **dict.fromkeys(map(chr, range(0x2000, 0x200B)), " "),
        **dict.fromkeys("\u2018\u2019\u201a\u201b", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212", "-"),
    }
)
"""Look-alike characters: models write the plain one where a file has the other, or vice versa."""

Indent: TypeAlias = Callable[[str], str | None]
"""Maps a given indentation to the intended one; None if it is not known."""


def same_lines(text: str, old: str, new: str, every: bool) -> Iterator[TextChange]:
    """Matches that differ in trailing spaces or look-alike characters."""
    wanted, given = old_lines(old), new_lines(old, new)
    lines = Lines(text)
    for at in lines.find([plain(line).rstrip() for line in wanted], str.rstrip, every):
        yield lines.replaced(at, wanted, given, given)


def same_lines_indented(text: str, old: str, new: str, every: bool) -> Iterator[TextChange]:
    """Matches that also differ in indentation. The new lines are indented like the match."""
    wanted, given = old_lines(old), new_lines(old, new)
    lines = Lines(text)
    found = lines.find([plain(line).strip() for line in wanted], str.strip, every)
    places = list(islice(found, MAX_COMPARED_LINES // len(wanted) + 1))
    if len(places) * len(wanted) > MAX_COMPARED_LINES:
        return
    for at in places:
        fitting = reindented(given, wanted, lines.lines[at : at + len(wanted)])
        if fitting is not None:
            yield lines.replaced(at, wanted, given, fitting)


def old_lines(old: str) -> list[str]:
    return old.removesuffix("\n").split("\n")


def new_lines(old: str, new: str) -> list[str]:
    """The replacement lines; empty if the old ones are deleted."""
    if old.endswith("\n"):
        return new.removesuffix("\n").split("\n") if new else []
    return new.split("\n")


def plain(line: str) -> str:
    """The line with look-alike characters replaced by the plain ones, at the same positions."""
    return line if line.isascii() else line.translate(LOOK_ALIKES)


def occurrences(text: str, wanted: str, every: bool) -> Iterator[int]:
    """Positions of a text: with `every`, those that can be replaced together.

    Otherwise also overlapping ones, because two of them make an edit ambiguous.
    """
    step = len(wanted) if every else 1
    at = text.find(wanted)
    while at >= 0:
        yield at
        at = text.find(wanted, at + step)


class Lines:
    """The lines of a text, found and replaced by their numbers, from 0."""

    def __init__(self, text: str) -> None:
        self.lines = text.split("\n")
        self._starts = [0]
        for line in self.lines:
            self._starts.append(self._starts[-1] + len(line) + 1)
        if not self.lines[-1]:  # there is no line after the last newline
            self.lines.pop()
        self._length = len(text)

    def find(self, keys: Sequence[str], strip: Callable[[str], str], every: bool) -> Iterator[int]:
        """Positions where consecutive lines equal `keys` when stripped."""
        if not any(keys):  # blank lines are everywhere
            return iter(())
        # Each line becomes one character, so lines are searched like text.
        names = {key: chr(number) for number, key in enumerate(dict.fromkeys(keys), 1)}
        here = "".join(names.get(strip(plain(line)), "\0") for line in self.lines)
        return occurrences(here, "".join(names[key] for key in keys), every)

    def replaced(
        self, at: int, old: Sequence[str], new: Sequence[str], put: Sequence[str]
    ) -> TextChange:
        """Replace the lines from `at`, which match `old`, by `new`, written as in `put`.

        Lines at the beginning and the end that `old` and `new` have in common are not touched.
        """
        head = agreeing(old, new)
        tail = agreeing(old[head:][::-1], new[head:][::-1])
        first, last = at + head, at + len(old) - tail
        start, end = self._starts[first], self._starts[last] - 1
        text = "\n".join(put[head : len(put) - tail])
        if len(put) == head + tail:  # lines are deleted, with their newlines
            whole = end < self._length
            return (
                TextChange(start, end + 1, "") if whole else TextChange(max(0, start - 1), end, "")
            )
        if first < last:
            return TextChange(start, end, text)
        if start > self._length:  # after a last line without a newline
            return TextChange(self._length, self._length, "\n" + text)
        return TextChange(start, start, text + "\n")


# --- Indentation --------------------------------------------------------------------------------


def reindented(
    lines: Sequence[str], given: Sequence[str], there: Sequence[str]
) -> list[str] | None:
    """The lines, indented by the difference between the given lines and those in the file; None if
    the difference is not the same for all."""
    best: list[str] | None = None
    for indent in differences(given, there):
        moved = [shifted(line, indent) for line in lines]
        fitting = [line for line in moved if line is not None]
        if len(fitting) < len(lines):
            continue
        if not any(map(mixes, fitting)):
            return fitting
        best = best or fitting
    return best


def differences(given: Sequence[str], there: Sequence[str]) -> Iterator[Indent]:
    """The changes of indentation that explain all pairs of lines, the simplest first."""
    pairs = [
        (indentation(one), indentation(other))
        for one, other in zip(given, there, strict=True)
        if one.strip()
    ]
    moving: list[Indent] = []
    for convert in conversions():
        first = convert(pairs[0][0])
        difference = None if first is None else between(first, pairs[0][1])
        if difference is None:
            continue
        indent = partial(move, convert, *difference)
        if all(indent(one) == other for one, other in pairs):
            if any(difference):
                moving.append(indent)
            else:
                yield indent
    yield from moving


def conversions() -> Iterator[Indent]:
    """Conversions of an indentation: none, spaces to tabs, tabs to spaces."""
    yield str
    yield from (partial(to_tabs, unit) for unit in TAB_WIDTHS)
    yield from (partial(to_spaces, unit) for unit in TAB_WIDTHS)


def to_tabs(unit: int, indentation: str) -> str | None:
    if indentation.strip(" ") or len(indentation) % unit:
        return None
    return "\t" * (len(indentation) // unit)


def to_spaces(unit: int, indentation: str) -> str | None:
    return None if indentation.strip("\t") else " " * unit * len(indentation)


def between(given: str, there: str) -> tuple[str, str] | None:
    """The text to add at the start of an indentation, and the text to remove, to get the other."""
    if there.endswith(given):
        return there.removesuffix(given), ""
    if given.endswith(there):
        return "", given.removesuffix(there)
    return None


def move(convert: Indent, added: str, taken: str, given: str) -> str | None:
    converted = convert(given)
    if converted is None or not converted.startswith(taken):
        return None
    return added + converted.removeprefix(taken)


def shifted(line: str, indent: Indent) -> str | None:
    """The line with its indentation changed; a blank line has none."""
    if not line.strip():
        return line
    before = indentation(line)
    after = indent(before)
    return None if after is None else after + line[len(before) :]


def indentation(line: str) -> str:
    text = plain(line)
    return text[: len(text) - len(text.lstrip())]


def mixes(line: str) -> bool:
    """Whether it is indented with tabs and spaces."""
    return {" ", "\t"} <= set(indentation(line))
