"""Output streams: to people at a terminal, to a program, or discarded.

`StreamEscaper` escapes streamed text for a terminal. `OutputStream` is one stream, and knows its
kind of reader.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, Literal, TextIO

from holdfast.kernel.escape import escape

# --- Harmless text ------------------------------------------------------------------------------


class StreamEscaper:
    """`escape` for streamed text: the two characters of a line end may arrive separately."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, text: str) -> str:
        text = self._held + text
        self._held = "\r" if text.endswith("\r") else ""
        return escape(text[:-1] if self._held else text)

    def end(self) -> str:
        held, self._held = self._held, ""
        return escape(held)


# --- Streams ------------------------------------------------------------------------------------


TextStyle = Literal[
    "bold", "dim", "italic", "underline", "red", "green", "yellow", "blue", "magenta", "cyan"
]
STYLE_CODES: Final[Mapping[TextStyle, int]] = {
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
"""Moves to the start of the line and clears it."""
DEFAULT_WIDTH: Final = 80
"""Width used if it is unknown."""


def begin(*styles: TextStyle) -> str:
    """The codes that start these styles, until `RESET`."""
    return f"\x1b[{';'.join(str(STYLE_CODES[style]) for style in styles)}m" if styles else ""


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
"""Replacements for characters the stream cannot encode; they read better than `?`."""


class OutputStream:
    """One output stream, for people or programs. Without a stream, output is discarded."""

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
        """Not `needed`: errors in writing to it are ignored."""
        self.terminal = terminal
        """Whether people read it at a terminal."""
        self.color = color
        self._width = width
        self.cursor = terminal if cursor is None else cursor
        """Whether a line can be rewritten in place."""
        self._needed = needed
        self._stream = stream
        self._encoding = getattr(stream, "encoding", None) or "utf-8"

    @classmethod
    def of(
        cls, stream: TextIO | None, environ: Mapping[str, str], *, needed: bool = True
    ) -> OutputStream:
        """Wrap a stream: detects a terminal, and uses colors if supported and wanted.

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
        """Current width, which changes when the terminal is resized."""
        if self._width is not None or self._stream is None:
            return self._width or DEFAULT_WIDTH
        try:  # for this very stream: another may be a terminal when this one is not
            return os.get_terminal_size(self._stream.fileno()).columns or DEFAULT_WIDTH
        except (OSError, ValueError):
            return DEFAULT_WIDTH

    def write(self, text: str) -> None:
        """Write. Raises an `OSError` once, and discards output after that.

        `BrokenPipeError`: the reader closed it, as in `holdfast run … | head -1`. A stream that is
        not needed raises no other.
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

    def style(self, name: TextStyle, text: str) -> str:
        """The text in a style; unchanged on a stream without colors."""
        return f"{begin(name)}{text}{RESET}" if self.color and text else text

    def holds(self, text: str) -> bool:
        """Whether the stream's encoding can represent the text."""
        try:
            return text.isascii() or bool(text.encode(self._encoding))
        except UnicodeEncodeError:
            return False

    def _fit(self, text: str) -> str:
        """Replace what the stream's encoding cannot represent.

        Done here whatever the stream would do: some raise, others write invalid bytes.
        """
        if self.holds(text):
            return text
        return text.translate(_IN_ASCII).encode(self._encoding, "replace").decode(self._encoding)

    def _give_up(self, error: OSError) -> None:
        stream, self._stream = self._stream, None
        assert stream is not None
        drop(stream)
        if isinstance(error, ConnectionResetError):  # a socket whose reader closed it
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE)) from error
        if self._needed or isinstance(error, BrokenPipeError):
            raise error


def drop(stream: TextIO) -> None:
    """Discard the buffered output of a stream.

    Otherwise Python tries to write it again on exit, and prints an error.
    """
    with suppress(OSError, ValueError):  # not backed by a file
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def _colors(environ: Mapping[str, str], able: bool) -> bool:
    """Whether colors are wanted: see no-color.org, force-color.org and CLICOLOR."""
    if environ.get("NO_COLOR"):
        return False
    for name in ("FORCE_COLOR", "CLICOLOR_FORCE"):
        if forced := environ.get(name):
            return forced not in ("0", "false")
    return able and environ.get("CLICOLOR") != "0"


def _columns(environ: Mapping[str, str]) -> int | None:
    """The width set in the environment, which overrides the terminal's."""
    columns = environ.get("COLUMNS", "")
    return int(columns) or None if columns.isdecimal() else None
