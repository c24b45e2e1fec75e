"""Some lines of a file that is too large to be held: it is read through once, piece by piece."""

from __future__ import annotations

import os
from typing import Final

from msgspec import Struct

CHUNK: Final = 1024 * 1024
LONGEST: Final = 64 * 1024
"""Bytes of a line that are kept."""


class Part(Struct, frozen=True):
    lines: list[str]
    total: int
    """Lines that the whole file has."""


def part(descriptor: int, first: int, count: int) -> Part:
    """As many lines as are wanted, from one on that is counted from 1. Lines end in LF."""
    kept: list[bytearray] = []
    at, empty = 1, True  # the line that is being read, and whether anything of it was
    while data := os.read(descriptor, CHUNK):
        ends = data.count(b"\n")
        if at + ends >= first and at < first + count:
            _keep(kept, data, at, first, count)
        at += ends
        empty = data.endswith(b"\n")
    texts = [bytes(line).removesuffix(b"\r").decode("utf-8", "surrogateescape") for line in kept]
    return Part(texts, at - empty)


def _keep(kept: list[bytearray], data: bytes, at: int, first: int, count: int) -> None:
    """Add what a piece, which begins in line `at`, has of the wanted lines."""
    for number, line in enumerate(data.split(b"\n"), at):
        if first <= number < first + count:
            if number == first + len(kept):
                if not line and number == at + data.count(b"\n"):
                    continue  # nothing behind the last end: the line begins with the next piece
                kept.append(bytearray())
            kept[number - first] += line[: LONGEST - len(kept[number - first])]
