"""A terminal with two parts: output above, and the line being typed below it."""

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

from holdfast.cli.editor import Editor, InputEnded, InterruptPressed, LineEntered
from holdfast.cli.terminal import DEFAULT_WIDTH, ERASE
from holdfast.cli.wrap import cells, folded
from holdfast.kernel.escape import escape

PROMPT: Final = "> "
QUESTION_PROMPT: Final = "? "
READ_SIZE: Final = 4096
PASTE_ON: Final = "\x1b[?2004h"
PASTE_OFF: Final = "\x1b[?2004l"
_ORDER: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def column_after(column: int, text: str, width: int) -> int:
    """Column of the cursor after writing a text from a column on. Pure.

    At the end of a full line it is `width`: the next character starts another one.
    """
    _, turn, rest = _ORDER.sub("", text).replace("\r", "\n").rpartition("\n")
    taken = cells(rest.replace("\t", " " * 8)) + (0 if turn else column)
    return taken if taken <= width else (taken - 1) % width + 1


class OutputAbove(io.TextIOBase):
    """Output as a stream: it is written above the line being typed."""

    def __init__(self, screen: SplitScreen, encoding: str) -> None:
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
        held, self._held = getattr(self, "_held", ""), ""  # also called when half constructed
        if held:
            self._screen.write(held)

    def fileno(self) -> int:
        return self._screen.output

    def isatty(self) -> bool:
        return True


class SplitScreen:
    """The terminal. `next` returns typed lines, unless a question is open."""

    def __init__(self, input: int, output: int, encoding: str = "utf-8") -> None:
        self.output = output
        self.above = OutputAbove(self, encoding)
        self.editor = Editor()
        self.on_stop: Callable[[], None] = lambda: None
        """Called when Ctrl-C is pressed, in order with the other keys."""
        self._input = input
        self._encoding = encoding
        self._invite = ""
        """Prompt of the line; empty: the line is shown once something is typed."""
        self._column = 0
        """Column where the output continues."""
        self._turned = False
        """Whether the output wrapped to the next line because one was full."""
        self._drawn: int | None = None
        """Output column to return to while the line is drawn; None: it is not."""
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._answer: asyncio.Future[str | None] | None = None

    @contextmanager
    def open(self) -> Iterator[None]:
        """Read keys during the block. The terminal is always restored afterwards."""
        loop = asyncio.get_running_loop()
        before = termios.tcgetattr(self._input)
        self._invite = PROMPT
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
            with suppress(termios.error):  # the terminal may be closed
                termios.tcsetattr(self._input, termios.TCSADRAIN, before)

    def _ready(self) -> None:
        """Deliver keys as they are pressed, without echo."""
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
            data = os.read(self._input, READ_SIZE)
        except OSError:  # the terminal was closed
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(self._input)
            self._lines.put_nowait(None)
            return
        for what in self.editor.feed(data):
            match what:
                case InterruptPressed():
                    self.on_stop()
                case InputEnded():
                    self._take(None)
                case LineEntered(text):
                    self._take(text)
        self.write("")

    def _take(self, line: str | None) -> None:
        """Use a line as the answer to an open question, unless it is a command."""
        answer = self._answer
        if answer is None or answer.done() or (line is not None and line.startswith("/")):
            self._lines.put_nowait(line)
            return
        if line is not None:
            self.write(f"{QUESTION_PROMPT}{escape(line)}\n")
        answer.set_result(line)

    async def ask(self, question: str) -> str | None:
        """Write a question, and return the next line as its answer; None without one."""
        self._answer = asyncio.get_running_loop().create_future()
        self.write("".join(f"{line}\n" for line in folded(question.rstrip(), self._width)))
        try:
            return await self._answer
        finally:
            self._answer = None
            self.write("")

    def invite(self, wanted: bool) -> None:
        """Set whether the line is shown even if nothing is typed."""
        invite = PROMPT if wanted else ""
        if invite != self._invite:
            self._invite = invite
            self.write("")

    # --- what is shown ---

    def write(self, text: str) -> None:
        """Write as it is: text of others has to be escaped before."""
        hidden = self._hide()
        if text:
            text = text.removeprefix("\n") if self._turned else text
            self._turned = False
        self._column = column_after(self._column, text, self._width)
        self._put(hidden + text + self._show())

    def _hide(self) -> str:
        """The codes that erase the line and return the cursor to the output."""
        column, self._drawn = self._drawn, None
        if column is None:
            return ""
        return ERASE if column == 0 else f"{ERASE}\x1b[A\x1b[{column}C"

    def _show(self) -> str:
        """The codes that draw the line below the output."""
        front = (
            QUESTION_PROMPT
            if self._answer is not None and not self._answer.done()
            else self._invite
        )
        if self._drawn is not None or not (front or self.editor.text):
            return ""
        down = "\n" if self._column else ""
        if self._column >= self._width:
            self._column, self._turned = 0, True  # where the next character would be
        self._drawn = self._column
        front = front or PROMPT
        before, after = self.editor.shown(max(self._width - len(front) - 1, 1))
        line = f"{front}{before}"
        # Written again up to the cursor: terminals disagree on the width of emoji.
        return f"{down}{ERASE}{line}" + (f"{after}\r{line}" if after else "")

    @property
    def _width(self) -> int:
        try:
            return os.get_terminal_size(self.output).columns or DEFAULT_WIDTH
        except OSError:
            return DEFAULT_WIDTH

    def _put(self, text: str) -> None:
        data = text.encode(self._encoding, "replace")
        with suppress(OSError):  # closed, which reading reports
            while data:
                data = data[os.write(self.output, data) :]
