"""A terminal with two parts: what happens, above, and the line that somebody types, below it."""

from __future__ import annotations

import asyncio
import io
import os
import re
import signal
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from holdfast.cli.editor import Editor, Ended, Sent, Stopped
from holdfast.cli.terminal import ERASE, WIDTH, safe
from holdfast.cli.wrap import cells, folded

INVITES: Final = "> "
ASKS: Final = "? "
CHUNK: Final = 4096
PASTE_ON: Final = "\x1b[?2004h"
PASTE_OFF: Final = "\x1b[?2004l"
_ORDER: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def column_after(column: int, text: str, width: int) -> int:
    """Where the cursor is when a text was written from a column on. Pure.

    At the end of a full line it is `width`: the next character begins another one.
    """
    _, turn, rest = _ORDER.sub("", text).replace("\r", "\n").rpartition("\n")
    taken = cells(rest.replace("\t", " " * 8)) + (0 if turn else column)
    return taken if taken <= width else (taken - 1) % width + 1


class Above(io.TextIOBase):
    """What happens, as a stream: it is written above the line that somebody types."""

    def __init__(self, screen: Screen, encoding: str) -> None:
        self._screen = screen
        self._encoding = encoding
        self._held = ""

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding

    def write(self, text: str) -> int:
        self._held += text
        return len(text)

    def flush(self) -> None:
        held, self._held = getattr(self, "_held", ""), ""  # also called of one half made
        if held:
            self._screen.write(held)

    def fileno(self) -> int:
        return self._screen.output

    def isatty(self) -> bool:
        return True


class Screen:
    """The terminal. `next` gives what is typed, line by line, unless a question is open."""

    def __init__(self, input: int, output: int, encoding: str = "utf-8") -> None:
        self.output = output
        self.above = Above(self, encoding)
        self.editor = Editor()
        self.on_stop: Callable[[], None] = lambda: None
        """Called when Ctrl-C is pressed, in its place among the other keys."""
        self._input = input
        self._encoding = encoding
        self._invite = ""
        """In front of the line; empty: it is shown once something is typed."""
        self._column = 0
        """Of what happens: where it goes on."""
        self._turned = False
        """It has gone to another line by itself, because one was full."""
        self._drawn: int | None = None
        """The line is there, and the column above it that is gone back to."""
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._answer: asyncio.Future[str | None] | None = None

    @contextmanager
    def open(self) -> Iterator[None]:
        """Let somebody type. However this ends, the terminal is left as it was."""
        loop = asyncio.get_running_loop()
        before = termios.tcgetattr(self._input)
        self._invite = INVITES
        self._ready()
        loop.add_reader(self._input, self._typed)
        loop.add_signal_handler(signal.SIGCONT, self._ready)
        loop.add_signal_handler(signal.SIGWINCH, self.write, "")
        try:
            yield
        finally:
            loop.remove_reader(self._input)
            for number in (signal.SIGCONT, signal.SIGWINCH):
                loop.remove_signal_handler(number)
            self._put(self._hide() + PASTE_OFF)
            with suppress(termios.error):  # it may be gone
                termios.tcsetattr(self._input, termios.TCSADRAIN, before)

    def _ready(self) -> None:
        """Keys as they are pressed, and none of them shown by the terminal itself."""
        with suppress(termios.error):
            now = termios.tcgetattr(self._input)
            now[3] &= ~(termios.ICANON | termios.ECHO | termios.IEXTEN)
            now[6][termios.VMIN], now[6][termios.VTIME] = 1, 0
            now[6][termios.VINTR] = bytes([os.fpathconf(self._input, "PC_VDISABLE")])
            termios.tcsetattr(self._input, termios.TCSANOW, now)
        self._put(PASTE_ON + self._show())

    # --- what is typed ---

    async def next(self) -> str | None:
        """The next line; None at the end of the input."""
        return await self._lines.get()

    def _typed(self) -> None:
        try:
            data = os.read(self._input, CHUNK)
        except OSError:  # whoever sat there is gone
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(self._input)
            self._lines.put_nowait(None)
            return
        for what in self.editor.feed(data):
            match what:
                case Stopped():
                    self.on_stop()
                case Ended():
                    self._take(None)
                case Sent(text):
                    self._take(text)
        self.write("")

    def _take(self, line: str | None) -> None:
        """A question is answered by anything but a command."""
        answer = self._answer
        if answer is None or answer.done() or (line is not None and line.startswith("/")):
            self._lines.put_nowait(line)
            return
        if line is not None:
            self.write(f"{ASKS}{safe(line)}\n")
        answer.set_result(line)

    async def ask(self, question: str) -> str | None:
        """Write a question, and take the next line as its answer; None when there is none."""
        self._answer = asyncio.get_running_loop().create_future()
        self.write("".join(f"{line}\n" for line in folded(question.rstrip(), self._width)))
        try:
            return await self._answer
        finally:
            self._answer = None
            self.write("")

    def invite(self, wanted: bool) -> None:
        """Whether the line is shown also when nothing is typed."""
        invite = INVITES if wanted else ""
        if invite != self._invite:
            self._invite = invite
            self.write("")

    # --- what is shown ---

    def write(self, text: str) -> None:
        """As it is: what others wrote has to be made harmless before."""
        hidden = self._hide()
        if text:
            text = text.removeprefix("\n") if self._turned else text
            self._turned = False
        self._column = column_after(self._column, text, self._width)
        self._put(hidden + text + self._show())

    def _hide(self) -> str:
        """What takes the line away, and the cursor back to where things happen."""
        column, self._drawn = self._drawn, None
        if column is None:
            return ""
        return ERASE if column == 0 else f"{ERASE}\x1b[A\x1b[{column}C"

    def _show(self) -> str:
        """What draws the line below what happens."""
        front = ASKS if self._answer is not None and not self._answer.done() else self._invite
        if self._drawn is not None or not (front or self.editor.text):
            return ""
        down = "\n" if self._column else ""
        if self._column >= self._width:
            self._column, self._turned = 0, True  # where the next character would be
        self._drawn = self._column
        front = front or INVITES
        before, behind = self.editor.shown(max(self._width - len(front) - 1, 1))
        line = f"{front}{before}"
        # Written again up to the cursor: terminals differ in how wide they make an emoji.
        return f"{down}{ERASE}{line}" + (f"{behind}\r{line}" if behind else "")

    @property
    def _width(self) -> int:
        try:
            return os.get_terminal_size(self.output).columns or WIDTH
        except OSError:
            return WIDTH

    def _put(self, text: str) -> None:
        data = text.encode(self._encoding, "replace")
        with suppress(OSError):  # whoever sat there is gone, which reading tells
            while data:
                data = data[os.write(self.output, data) :]
