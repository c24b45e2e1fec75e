"""Cursors of pages: opaque, so that what they hold may change."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode

from holdfast.server.problem import BadRequest


class BadCursor(BadRequest):
    kind = "bad_cursor"


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
    if known != kind or not place or "\x00" in place:
        raise BadCursor(
            f"{cursor!r:.80} is no cursor of this list: give `next` of the page before, or none",
            cursor=cursor,
        )
    return place
