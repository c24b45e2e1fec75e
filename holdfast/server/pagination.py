"""Cursors of paginated lists: opaque to clients, so that their content may change."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from holdfast.server.problem import BadRequest

T = TypeVar("T")


class BadCursor(BadRequest):
    """The cursor does not belong to this list."""

    kind = "bad_cursor"


def cut(found: Sequence[T], limit: int) -> tuple[tuple[T, ...], bool]:
    """The page, and whether there is more; `found` was queried with a limit one higher."""
    return tuple(found[:limit]), len(found) > limit


def cursor_of(kind: str, place: str) -> str:
    """The cursor for a position in a kind of list."""
    return urlsafe_b64encode(f"{kind} {place}".encode()).decode().rstrip("=")


def place_of(kind: str, cursor: str | None) -> str | None:
    """The position in a cursor of this kind of list; None for the beginning."""
    if cursor is None:
        return None
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        known, _, place = urlsafe_b64decode(padded.encode("ascii")).decode().partition(" ")
    except (ValueError, UnicodeError):
        known, place = "", ""
    # Databases cannot store NUL; in JSON it is written as the second.
    if known != kind or not place or "\x00" in place or "\\u0000" in place:
        raise _bad(cursor)
    return place


def cursor_holding(kind: str, value: object) -> str:
    """The cursor for a position that is not plain text."""
    return cursor_of(kind, msgspec.json.encode(value).decode())


def value_of(kind: str, cursor: str | None, type: type[T] | Any) -> T | None:
    """The position in a cursor made by `cursor_holding`; None for the beginning."""
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
        f"{cursor!r:.80} is not a cursor of this list: use `next` of the previous page, or none",
        cursor=cursor,
    )
