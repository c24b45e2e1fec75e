"""Reads some lines of a file that is too large to be held in memory, in one pass."""

from __future__ import annotations

import time
from typing import Final

from msgspec import Struct

from holdfast.kernel.workspace import OpenFile

READ_SIZE: Final = 1024 * 1024
MAX_LINE_BYTES: Final = 64 * 1024
"""Bytes of a line that are kept."""


class Excerpt(Struct, frozen=True):
    lines: list[str]
    total: int
    """Number of lines of the file, or of the part that was read."""
    complete: bool = True
    """Whether the end of the file was reached in time."""


async def part(file: OpenFile, first: int, count: int, until: float, data: bytes) -> Excerpt:
    """Up to `count` lines, from line `first` (counted from 1). Lines end in LF.

    `until`: when to stop reading, in seconds of `time.monotonic`: reading a huge file may take
    minutes. `data`: what was read before.
    """
    kept: list[bytearray] = []
    at, empty = 1, True  # the line that is being read, and whether anything of it was
    while data:
        ends = data.count(b"\n")
        if at + ends >= first and at < first + count:
            _keep(kept, data, at, first, count)
        at += ends
        empty = data.endswith(b"\n")
        if time.monotonic() >= until:
            whole = max(0, at - first)  # a last line without its end may continue in the next chunk
            return Excerpt(_texts(kept[:whole]), at - 1, complete=False)
        data = await file.read(READ_SIZE)
    return Excerpt(_texts(kept), at - empty)


def _texts(lines: list[bytearray]) -> list[str]:
    return [bytes(line).removesuffix(b"\r").decode("utf-8", "surrogateescape") for line in lines]


def _keep(kept: list[bytearray], data: bytes, at: int, first: int, count: int) -> None:
    """Add the wanted lines of a chunk that starts in line `at`."""
    for number, line in enumerate(data.split(b"\n"), at):
        if first <= number < first + count:
            if number == first + len(kept):
                if not line and number == at + data.count(b"\n"):
                    continue  # nothing after the last newline: the line starts with the next chunk
                kept.append(bytearray())
            kept[number - first] += line[: MAX_LINE_BYTES - len(kept[number - first])]
