"""Escapes for text of models, tools and files where people read it. Pure.

A control character commands a terminal, a line end forges a line of a log, and a bidirectional
override makes text read differently from how it runs. Each is replaced by its name: an escape
character shows as `\\x1b`, an override as `\\u202e`.
"""

from __future__ import annotations

import re
from typing import Final

_CONTROLS: Final = r"\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff"
_UNSAFE: Final = (
    _CONTROLS
    + r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u206f"  # bidirectional controls
    + r"\u2028\u2029\ufff9-\ufffb"  # break a line, or hide text, for some readers
)
_CONTROL: Final = re.compile(f"[{_CONTROLS}]")
_IN_TEXT: Final = re.compile(f"[{_UNSAFE}]")
_IN_LINE: Final = re.compile(f"[\\n{_UNSAFE}]")


def escape(text: str) -> str:
    """Text without anything that a terminal obeys or that changes the order of its letters."""
    return _escaped(_IN_TEXT, text)


def escape_line(text: str) -> str:
    """The same for text that has to stay on one line."""
    return _escaped(_IN_LINE, text)


def escape_controls(text: str) -> str:
    """Text without control characters. Marks of direction stay: right-to-left prose needs them."""
    return _escaped(_CONTROL, text)


def _escaped(dangerous: re.Pattern[str], text: str) -> str:
    if dangerous.search(text) is None:  # the usual case
        return text
    return dangerous.sub(_spelled, text.replace("\r\n", "\n"))


def _spelled(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code == 0x0A:
        return "\\n"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
