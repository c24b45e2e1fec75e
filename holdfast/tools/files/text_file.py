"""Text files: conversion between bytes and the text that a model works with. Pure.

The text has `\\n` at the end of every line; the original endings are kept separately. A change
touches only what it changes: every other byte of the file is written as it was read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain
from typing import Final, Literal, TypeAlias

from msgspec import Struct

Encoding: TypeAlias = Literal["utf-8", "utf-16-le", "utf-16-be"]
LineEndings: TypeAlias = Literal["LF", "CRLF", "CR", "mixed"]

BOMS: Final[tuple[tuple[bytes, Encoding], ...]] = (
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
)
ERRORS: Final[dict[Encoding, str]] = {
    "utf-8": "surrogateescape",  # bytes that are not UTF-8 become characters, and these the bytes
    "utf-16-le": "surrogatepass",
    "utf-16-be": "surrogatepass",
}
STYLES: Final[dict[str, LineEndings]] = {"\n": "LF", "\r\n": "CRLF", "\r": "CR"}

SAMPLE: Final = 8 * 1024
"""Bytes at the beginning of a file in which control characters are counted."""
CONTROL: Final = bytes({*range(32), 127} - set(b"\t\n\r\f\b\x1b"))
"""Control characters: rare in text, frequent in compressed or compiled files."""
_LONE: Final = re.compile("[\ud800-\udfff]")
_DECODED: Final = re.compile("[^\\x00-\\x7f\ud800-\udfff]")


class Document(Struct, frozen=True):
    """The text of a file, and what is needed to write the file as it was."""

    text: str
    """The lines, each ended by `\\n`. A byte that is not UTF-8 is a lone surrogate."""
    endings: tuple[str, ...] = ()
    """The original ending for each `\\n`."""
    encoding: Encoding = "utf-8"
    bom: bytes = b""

    @property
    def style(self) -> LineEndings | None:
        """Which line endings it has; None if it has none."""
        kinds = set(self.endings)
        if not kinds:
            return None
        return "mixed" if len(kinds) > 1 else STYLES[kinds.pop()]


class TextChange(Struct, frozen=True):
    """A replacement of a span of the text."""

    start: int
    end: int
    new: str


def decode(data: bytes) -> Document | None:
    """The text of a file; None if it is not text."""
    bom, encoding = next(((b, e) for b, e in BOMS if data.startswith(b)), (b"", BOMS[0][1]))
    if encoding == "utf-8" and is_binary(data):
        return None
    try:
        raw = data[len(bom) :].decode(encoding, ERRORS[encoding])
    except UnicodeDecodeError:  # half a character of UTF-16
        return None
    if "\0" in raw:
        return None
    text, endings = split_endings(raw)
    return Document(text, endings, encoding, bom)


def is_binary(data: bytes) -> bool:
    sample = data[:SAMPLE]
    controls = len(sample) - len(sample.translate(None, CONTROL))
    return b"\0" in data or controls > max(8, len(sample) // 20)


def encode(document: Document) -> bytes:
    """The bytes that `decode` was given, except for changes."""
    raw = document.text
    if document.style not in (None, "LF"):
        lines = document.text.split("\n")
        raw = "".join(chain.from_iterable(zip(lines, (*document.endings, ""), strict=True)))
    return document.bom + raw.encode(document.encoding, ERRORS[document.encoding])


def split_endings(raw: str) -> tuple[str, tuple[str, ...]]:
    """The text with `\\n` alone, and its original endings.

    A lone CR ends a line only if no line ends in another way. In a text with `\\n` it is an
    ordinary character, so lines are counted as by compilers and search tools.
    """
    if "\r" not in raw:
        return raw, ("\n",) * raw.count("\n")
    if "\n" not in raw:
        return raw.replace("\r", "\n"), ("\r",) * raw.count("\r")
    lines = raw.split("\n")
    endings = tuple("\r\n" if line.endswith("\r") else "\n" for line in lines[:-1])
    return raw.replace("\r\n", "\n"), endings


def as_lines_of(document: Document, text: str) -> str:
    """Text given to find or insert, with the line endings of the document."""
    text = text.replace("\r\n", "\n")
    return text.replace("\r", "\n") if document.style == "CR" else text


def change(document: Document, changes: Sequence[TextChange]) -> Document:
    """The document with some spans replaced, given in order and without overlap.

    A new line gets the line ending used around it.
    """
    text = document.text
    texts: list[str] = []
    endings: list[str] = []
    at = line = 0
    for planned in changes:
        start, end, new = narrowed(text, planned)
        texts += (text[at:start], new)
        before = line + text.count("\n", at, start)
        endings += document.endings[line:before]
        endings += [_ending_at(document, before)] * new.count("\n")
        line = before + text.count("\n", start, end)
        at = end
    texts.append(text[at:])
    endings += document.endings[line:]
    return Document("".join(texts), tuple(endings), document.encoding, document.bom)


def narrowed(text: str, change: TextChange) -> tuple[int, int, str]:
    """The span that really changes, without common beginnings and ends."""
    old, new = text[change.start : change.end], change.new
    head = agreeing(old, new)
    old, new = old[head:], new[head:]
    tail = agreeing(old[::-1], new[::-1])
    return change.start + head, change.end - tail, new[: len(new) - tail]


def agreeing(one: Sequence[str], other: Sequence[str]) -> int:
    """Length of the common beginning of two texts or lists."""
    pairs = zip(one, other, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def _ending_at(document: Document, line: int) -> str:
    """The ending of a line; for a last line without one, the ending of the line before it."""
    endings = document.endings
    return endings[min(line, len(endings) - 1)] if endings else "\n"


def rewritten(document: Document | None, content: str) -> Document:
    """The document of a file whose whole text is replaced.

    It keeps its encoding, its byte order mark, and line endings other than `\\n` if all of its
    lines have them: the author of the new text was not shown these. Line endings in the new text
    are kept.
    """
    document = document or Document("")
    text, endings = split_endings(content.removeprefix("\ufeff") if document.bom else content)
    if document.style in ("CRLF", "CR") and "\r" not in content:
        endings = (document.endings[0],) * len(endings)
    return Document(text, endings, document.encoding, document.bom)


def in_another_encoding(document: Document) -> bool:
    """Whether none of its non-ASCII bytes are UTF-8: probably an old 8-bit encoding."""
    return lone_surrogate(document.text) is not None and not _DECODED.search(document.text)


def lone_surrogate(text: str) -> str | None:
    """A lone surrogate in a text to be written, which cannot be encoded; None without one."""
    found = _LONE.search(text)
    return None if found is None else f"U+{ord(found[0]):04X}"


def shown(text: str) -> str:
    """The text for display: invalid bytes become `\ufffd`."""
    return text if text.isascii() else _LONE.sub("\ufffd", text)
