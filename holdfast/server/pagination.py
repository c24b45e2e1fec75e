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


def cut(rows: Sequence[T], limit: int) -> tuple[tuple[T, ...], bool]:
    """The page, and whether there is more; `found` was queried with a limit one higher."""
    return tuple(rows[:limit]), len(rows) > limit


def cursor_of(kind: str, position: str) -> str:
    """The cursor for a position in a kind of list."""
    return urlsafe_b64encode(f"{kind} {position}".encode()).decode().rstrip("=")


def position_of(kind: str, cursor: str | None) -> str | None:
    """The position in a cursor of this kind of list; None for the beginning."""
    if cursor is None:
        return None
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        cursor_kind, _, position = urlsafe_b64decode(padded.encode("ascii")).decode().partition(" ")
    except (ValueError, UnicodeError):
        cursor_kind, position = "", ""
    # Databases cannot store NUL; in JSON it is written as the second.
    if cursor_kind != kind or not position or "\x00" in position or "\\u0000" in position:
        raise _bad(cursor)
    return position


def cursor_holding(kind: str, value: object) -> str:
    """The cursor for a position that is not plain text."""
    return cursor_of(kind, msgspec.json.encode(value).decode())


def value_of(kind: str, cursor: str | None, type: type[T] | Any) -> T | None:
    """The position in a cursor made by `cursor_holding`; None for the beginning."""
    position = position_of(kind, cursor)
    if cursor is None or position is None:
        return None
    try:
        value: T = msgspec.json.decode(position, type=type)
    except msgspec.MsgspecError:
        raise _bad(cursor) from None
    return value


def _bad(cursor: str) -> BadCursor:
    return BadCursor(
        f"{cursor!r:.80} is not a cursor of this list: use `next` of the previous page, or none",
        cursor=cursor,
    )
