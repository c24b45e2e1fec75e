"""Where text goes: to people at a terminal, to a program, or nowhere.

`safe` makes text of others harmless for a terminal. `Out` is one stream, and knows who reads it.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, Literal, TextIO

# --- Harmless text ------------------------------------------------------------------------------

_UNSAFE: Final = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters, which are orders to a terminal
    r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u206f"  # make text read otherwise than it runs
    r"\u2028\u2029\ufff9-\ufffb"  # break a line, or hide text, for some
    r"\ud800-\udfff]"
)


def safe(text: str) -> str:
    """Text of a model, a tool or a file as a terminal may have it: what is dangerous is spelled.

    An escape character shows as `\\x1b`, an override of direction as `\\u202e`.
    """
    if _UNSAFE.search(text) is None:
        return text
    return _UNSAFE.sub(_spelled, text.replace("\r\n", "\n"))


def _spelled(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


class Safe:
    """`safe` for text that comes in pieces: the two characters of a line's end may come apart."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, text: str) -> str:
        text = self._held + text
        self._held = "\r" if text.endswith("\r") else ""
        return safe(text[:-1] if self._held else text)

    def end(self) -> str:
        held, self._held = self._held, ""
        return safe(held)


# --- Streams ------------------------------------------------------------------------------------


Style = Literal[
    "bold", "dim", "italic", "underline", "red", "green", "yellow", "blue", "magenta", "cyan"
]
CODES: Final[Mapping[Style, int]] = {
    "bold": 1,
    "dim": 2,
    "italic": 3,
    "underline": 4,
    "red": 31,
    "green": 32,
    "yellow": 33,
    "blue": 34,
    "magenta": 35,
    "cyan": 36,
}
RESET: Final = "\x1b[0m"
ERASE: Final = "\r\x1b[K"
"""To the start of the line, with nothing on it."""
WIDTH: Final = 80
"""Where nobody says how wide a line may be."""


def begin(*styles: Style) -> str:
    """What makes a terminal write in these styles, until `RESET`."""
    return f"\x1b[{';'.join(str(CODES[style]) for style in styles)}m" if styles else ""


_IN_ASCII: Final = str.maketrans(
    {
        "●": "*",
        "•": "*",
        "·": "-",
        "✓": "+",
        "✗": "x",
        "↻": "~",
        "→": "->",
        "│": "|",
        "─": "-",
        "…": "...",
        "–": "-",
        "—": "-",
        "“": '"',
        "”": '"',
        "\u2018": "'",
        "\u2019": "'",
    }
)
"""For a stream that cannot say them. Also of others' text: it reads better than `?`."""


class Out:
    """One stream, for people or for programs. Without a stream, what is written goes nowhere."""

    def __init__(
        self,
        stream: TextIO | None,
        *,
        terminal: bool,
        color: bool,
        width: int | None = None,
        cursor: bool | None = None,
        needed: bool = True,
    ) -> None:
        """Not `needed`: when it cannot be written, that is no trouble."""
        self.terminal = terminal
        """People look at it."""
        self.color = color
        self._width = width
        self.cursor = terminal if cursor is None else cursor
        """A line can be written anew in its place."""
        self._needed = needed
        self._stream = stream
        self._encoding = getattr(stream, "encoding", None) or "utf-8"

    @classmethod
    def of(cls, stream: TextIO | None, environ: Mapping[str, str], *, needed: bool = True) -> Out:
        """The stream as it is: a terminal or not, with colours if it has them and they are wanted.

        `sys.stdout` is None in a program that was started without one.
        """
        if stream is None or stream.closed:
            return cls(None, terminal=False, color=False)
        terminal = stream.isatty()
        able = terminal and environ.get("TERM") != "dumb"
        return cls(
            stream,
            terminal=terminal,
            color=_colors(environ, able),
            width=_columns(environ),
            cursor=able,
            needed=needed,
        )

    @property
    def width(self) -> int:
        """As it is now: people resize their terminals."""
        if self._width is not None or self._stream is None:
            return self._width or WIDTH
        try:  # of this very stream: another one may be a terminal when this one is not
            return os.get_terminal_size(self._stream.fileno()).columns or WIDTH
        except (OSError, ValueError):
            return WIDTH

    def write(self, text: str) -> None:
        """Write, where it goes. Raises an `OSError` once, and after that goes nowhere.

        `BrokenPipeError`: whoever read it has left, as in `holdfast run … | head -1`. Of a stream
        that is not needed, no other is raised.
        """
        if self._stream is None:
            return
        try:
            self._stream.write(self._fit(text))
        except OSError as error:
            self._give_up(error)

    def flush(self) -> None:
        if self._stream is None:
            return
        try:
            self._stream.flush()
        except OSError as error:
            self._give_up(error)

    def style(self, name: Style, text: str) -> str:
        """The text in a style; as it is on a stream without colours."""
        return f"{begin(name)}{text}{RESET}" if self.color and text else text

    def holds(self, text: str) -> bool:
        """Whether the stream's encoding can say all of it."""
        try:
            return text.isascii() or bool(text.encode(self._encoding))
        except UnicodeEncodeError:
            return False

    def _fit(self, text: str) -> str:
        """The text with what the stream's encoding cannot hold replaced.

        Done here whatever the stream would do: some of them raise, others write bytes that are no
        text.
        """
        if self.holds(text):
            return text
        return text.translate(_IN_ASCII).encode(self._encoding, "replace").decode(self._encoding)

    def _give_up(self, error: OSError) -> None:
        stream, self._stream = self._stream, None
        assert stream is not None
        drop(stream)
        if isinstance(error, ConnectionResetError):  # what a socket says of a reader that left
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE)) from error
        if self._needed or isinstance(error, BrokenPipeError):
            raise error


def drop(stream: TextIO) -> None:
    """Let what a stream still holds go nowhere.

    Otherwise Python tries to write it once more at its exit, and complains.
    """
    with suppress(OSError, ValueError):  # no file behind it
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def _colors(environ: Mapping[str, str], able: bool) -> bool:
    """Whether colours are wanted: see no-color.org, force-color.org and CLICOLOR."""
    if environ.get("NO_COLOR"):
        return False
    for name in ("FORCE_COLOR", "CLICOLOR_FORCE"):
        if forced := environ.get(name):
            return forced not in ("0", "false")
    return able and environ.get("CLICOLOR") != "0"


def _columns(environ: Mapping[str, str]) -> int | None:
    """The width that somebody has set, whatever the terminal says."""
    columns = environ.get("COLUMNS", "")
    return int(columns) or None if columns.isdecimal() else None
