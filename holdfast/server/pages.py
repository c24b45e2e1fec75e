"""Cursors of pages: opaque, so that what they hold may change."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from holdfast.server.problem import BadRequest

T = TypeVar("T")


class BadCursor(BadRequest):
    kind = "bad_cursor"


def cut(found: Sequence[T], limit: int) -> tuple[tuple[T, ...], bool]:
    """A page, of what was asked for with one more than fits; and whether there is more."""
    return tuple(found[:limit]), len(found) > limit


def cursor_of(kind: str, place: str) -> str:
    """A cursor that stands for the last thing of a page."""
    return urlsafe_b64encode(f"{kind} {place}".encode()).decode().rstrip("=")


def place_of(kind: str, cursor: str | None) -> str | None:
    """The place that a cursor of this kind of page stands for; None for the beginning."""
    if cursor is None:
        return None
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        known, _, place = urlsafe_b64decode(padded.encode("ascii")).decode().partition(" ")
    except (ValueError, UnicodeError):
        known, place = "", ""
    # A database has no text with the first; as JSON has it, it is the second.
    if known != kind or not place or "\x00" in place or "\\u0000" in place:
        raise _bad(cursor)
    return place


def cursor_holding(kind: str, value: object) -> str:
    """A cursor for a list whose places are more than a text."""
    return cursor_of(kind, msgspec.json.encode(value).decode())


def value_of(kind: str, cursor: str | None, type: type[T] | Any) -> T | None:
    place = place_of(kind, cursor)
    if cursor is None or place is None:
        return None
    try:
        made: T = msgspec.json.decode(place, type=type)
    except msgspec.MsgspecError:
        raise _bad(cursor) from None
    return made


def _bad(cursor: str) -> BadCursor:
    return BadCursor(
        f"{cursor!r:.80} is no cursor of this list: give `next` of the page before, or none",
        cursor=cursor,
    )
