"""Joins characters that a provider split across two events. Pure.

A text that is streamed may be cut anywhere, also within a character that JSON writes as two
escapes: one ends the text of an event, the other begins that of the next. No reader of ours takes
such an event, so whoever fails at one comes here, and nobody else pays for it.
"""

from __future__ import annotations

import re
from typing import Final

_FIRST: Final = rb"\\u[dD][89abAB][0-9a-fA-F]{2}"
_SECOND: Final = rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_ESCAPE: Final = re.compile(
    rb"(?P<whole>%(first)b%(second)b)"
    rb'|(?P<ends>%(first)b)(?=")'
    rb'|(?<!\\")(?<=")(?P<begins>%(second)b)'
    rb"|(?P<alone>%(first)b|%(second)b)"
    rb"|\\." % {b"first": _FIRST, b"second": _SECOND},
    re.DOTALL,
)
"""Any escape, one after the other: an escaped backslash begins none."""


class SurrogateJoiner:
    """The halves of characters in one stream."""

    def __init__(self) -> None:
        self._pending = b""
        """The half at the end of a text, until there is a text that begins with the other."""

    def joined(self, event: bytes) -> bytes:
        """An event with whole characters only, or as it is if there are no others in it. A half
        whose other half does not come is left out: it says nothing."""
        pending, self._pending = self._pending, b""

        def whole(escape: re.Match[bytes]) -> bytes:
            match escape.lastgroup:
                case "ends":
                    self._pending = escape[0]
                    return b""
                case "begins":  # more than once where an event says the same in two places
                    first = pending or self._pending
                    return first + escape[0] if first else b""
                case "alone":
                    return b""
                case _:
                    return escape[0]

        result = _ESCAPE.sub(whole, event)
        if result == event:
            self._pending = pending
        return result
