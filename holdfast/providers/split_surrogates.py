"""Joins characters that a provider split across two events. Pure.

Streamed text may be cut anywhere, also inside a character that JSON writes as two escapes: one ends
the text of an event, the other begins that of the next. No JSON parser here accepts such an event,
so a decoder calls this only after a parse error, and other events cost nothing.
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
"""Matches each escape in turn; an escaped backslash does not begin another one."""


class SurrogateJoiner:
    """Joins the surrogate halves of one stream."""

    def __init__(self) -> None:
        self._pending = b""
        """Half of a character at the end of a text, until a text begins with the other half."""

    def joined(self, event: bytes) -> bytes:
        """The event with its characters joined, or unchanged if none was split.

        A half whose other half never arrives is dropped.
        """
        pending, self._pending = self._pending, b""

        def whole(escape: re.Match[bytes]) -> bytes:
            match escape.lastgroup:
                case "ends":
                    self._pending = escape[0]
                    return b""
                case "begins":  # more than once if an event repeats the text in two fields
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
