"""Reads some lines of a file that is too large to be held in memory, in one pass."""

from __future__ import annotations

import os
import time
from typing import Final

from msgspec import Struct

CHUNK: Final = 1024 * 1024
LONGEST: Final = 64 * 1024
"""Bytes of a line that are kept."""


class Part(Struct, frozen=True):
    lines: list[str]
    total: int
    """Number of lines of the file, or of the part that was read."""
    complete: bool = True
    """Whether the end of the file was reached in time."""


def part(descriptor: int, first: int, count: int, until: float) -> Part:
    """Up to `count` lines, from line `first` (counted from 1). Lines end in LF.

    `until`: when to stop reading, in seconds of `time.monotonic`. The thread that reads cannot be
    cancelled, and a file may be larger than anyone wants to wait for.
    """
    kept: list[bytearray] = []
    at, empty = 1, True  # the line that is being read, and whether anything of it was
    while data := os.read(descriptor, CHUNK):
        ends = data.count(b"\n")
        if at + ends >= first and at < first + count:
            _keep(kept, data, at, first, count)
        at += ends
        empty = data.endswith(b"\n")
        if time.monotonic() >= until:
            whole = max(0, at - first)  # a last line without its end may go on after this chunk
            return Part(_texts(kept[:whole]), at - 1, complete=False)
    return Part(_texts(kept), at - empty)


def _texts(lines: list[bytearray]) -> list[str]:
    return [bytes(line).removesuffix(b"\r").decode("utf-8", "surrogateescape") for line in lines]


def _keep(kept: list[bytearray], data: bytes, at: int, first: int, count: int) -> None:
    """Add what a piece, which begins in line `at`, has of the wanted lines."""
    for number, line in enumerate(data.split(b"\n"), at):
        if first <= number < first + count:
            if number == first + len(kept):
                if not line and number == at + data.count(b"\n"):
                    continue  # nothing behind the last end: the line begins with the next piece
                kept.append(bytearray())
            kept[number - first] += line[: LONGEST - len(kept[number - first])]
