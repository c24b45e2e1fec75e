"""A terminal with two parts: output above, and the line being typed below it."""

from __future__ import annotations

import asyncio
import io
import os
import re
import signal
import sys
import termios
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final, Literal

import anyio
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import (
    ANSI,
    AnyFormattedText,
    StyleAndTextTuples,
    to_formatted_text,
)
from prompt_toolkit.history import History, InMemoryHistory
from prompt_toolkit.input import Input, create_input
from prompt_toolkit.layout import ConditionalContainer, HSplit, Layout, Window
from prompt_toolkit.layout.controls import FormattedTextControl
from prompt_toolkit.output.vt100 import Vt100_Output

from holdfast.cli.line_editor import key_bindings, line_editor
from holdfast.cli.output_stream import DEFAULT_WIDTH, ERASE, RESET, drop
from holdfast.cli.wrap import folded
from holdfast.kernel.escape import escape

PROMPT: Final = "> "
QUESTION_PROMPT: Final = "? "
MAX_UNFINISHED_ROWS: Final = 4
"""Rows of the terminal that an unfinished line of output takes at most; it is cut at the start."""
_STYLE: Final = re.compile(r"\x1b\[[0-9;]*m")


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
        return self._screen.descriptor

    def isatty(self) -> bool:
        return True


class SplitScreen:
    """The terminal. `next` returns typed lines, unless a question is open.

    Whole lines of output go to the terminal, above the editor. A line that is still growing is a
    part of what the editor draws, so it can be drawn again at any width.
    """

    def __init__(
        self,
        input: Input,
        output: Vt100_Output,
        *,
        keys: Literal["vi", "emacs"] = "emacs",
        history: History | None = None,
    ) -> None:
        self._stdout = output.stdout
        self.above = OutputAbove(self, self._stdout.encoding or "utf-8")
        self.on_stop: Callable[[], None] = lambda: None
        """Called when Ctrl-C is pressed, in order with the other keys."""
        self._output = output
        self._invited = False
        """Whether the prompt is shown while nothing is typed."""
        self._unfinished = ""
        """The last line of output, which is still growing."""
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._answer: asyncio.Future[str | None] | None = None
        session = line_editor(
            self._prompt,
            keys=keys,
            bindings=key_bindings(self._entered, lambda: self._take(None), lambda: self.on_stop()),
            history=history or InMemoryHistory(),
            input=input,
            output=output,
        )
        self._buffer, self._app = session.default_buffer, session.app
        unfinished = Window(
            FormattedTextControl(self._shown_unfinished), wrap_lines=True, dont_extend_height=True
        )
        below = ConditionalContainer(unfinished, Condition(lambda: bool(self._unfinished)))
        focused = session.layout.current_window
        self._app.layout = Layout(HSplit([below, session.layout.container]), focused)

    @classmethod
    def of_terminal(cls, keys: Literal["vi", "emacs"], history: History) -> SplitScreen:
        """The terminal of this process."""
        output = Vt100_Output.from_pty(sys.stdout, term=os.environ.get("TERM"))
        output.enable_cpr = False  # its answers would be typed into a program that starts later
        return cls(create_input(sys.stdin), output, keys=keys, history=history)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Read keys during the block. The terminal is always restored afterwards."""
        self._invited = True
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGCONT, self._resumed)
        editing = asyncio.create_task(self._edit())
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGCONT)
            with anyio.CancelScope(shield=True):
                if self._app.is_running and not self._app.is_done:
                    self._app.exit()
                await editing
            if self._unfinished:
                self.write("\n")

    async def _edit(self) -> None:
        try:
            await self._app.run_async(handle_sigint=False, set_exception_handler=False)
        except (EOFError, OSError):
            self._closed()

    def _closed(self) -> None:
        """End the input: the terminal was closed."""
        drop(self._stdout)
        self._lines.put_nowait(None)

    def _resumed(self) -> None:
        """Take the terminal again after the process was stopped, unless Ctrl-Z has done that."""
        with suppress(termios.error):
            if not termios.tcgetattr(self._app.input.fileno())[3] & termios.ICANON:
                return
            self._app.input.raw_mode().__enter__()
            self._app.renderer.reset()
            self._app.invalidate()

    # --- what is typed ---

    async def next(self) -> str | None:
        """The next line; None at the end of the input."""
        return await self._lines.get()

    @property
    def text(self) -> str:
        """The line being typed."""
        return self._buffer.text

    def put(self, text: str) -> None:
        """Replace the line with a text to be edited."""
        self._buffer.text = text
        self._buffer.cursor_position = len(text)

    def clear(self) -> bool:
        """Clear the line; returns whether there was anything."""
        some = bool(self._buffer.text)
        self._buffer.reset()
        return some

    def _entered(self, buffer: Buffer) -> None:
        text = buffer.text
        # An answer may be a secret, so it is not kept for recall.
        buffer.reset(append_to_history=bool(text.strip()) and not self._asks)
        self._take(text)

    def _take(self, line: str | None) -> None:
        """Use a line as the answer to an open question, unless it is a command."""
        answer = self._answer
        if answer is None or answer.done() or (line is not None and line.startswith("/")):
            self._lines.put_nowait(line)
            return
        if line is not None:
            self.write(f"{QUESTION_PROMPT}{escape(line)}\n")
        answer.set_result(line)

    @property
    def _asks(self) -> bool:
        return self._answer is not None and not self._answer.done()

    async def ask(self, question: str) -> str | None:
        """Write a question, and return the next line as its answer; None without one."""
        self._answer = asyncio.get_running_loop().create_future()
        self.write("".join(f"{line}\n" for line in folded(question.rstrip(), self._width)))
        try:
            return await self._answer
        finally:
            self._answer = None
            self._app.invalidate()

    def invite(self, wanted: bool) -> None:
        """Set whether the prompt is shown even if nothing is typed."""
        if wanted != self._invited:
            self._invited = wanted
            self._app.invalidate()

    # --- what is shown ---

    def write(self, text: str) -> None:
        """Write as it is: text of others has to be escaped before."""
        whole, newline, rest = (self._unfinished + text).rpartition("\n")
        if newline:
            rest = _style_after(whole) + rest
            self._put("".join(f"{_last_version(line)}\n" for line in whole.split("\n")))
        self._unfinished = _last_version(rest)
        self._app.invalidate()

    def _put(self, lines: str) -> None:
        """Write whole lines above the editor."""
        end = RESET if _style_after(lines) else ""
        try:
            if self._app.is_running:
                self._app.renderer.erase()
            self._output.write_raw(lines.replace("\n", "\r\n") + end)
            self._output.flush()
        except OSError:
            self._closed()

    def _prompt(self) -> str:
        if self._asks:
            return QUESTION_PROMPT
        return PROMPT if self._invited or self._buffer.text else ""

    def _shown_unfinished(self) -> AnyFormattedText:
        shown: StyleAndTextTuples = []
        room = MAX_UNFINISHED_ROWS * self._width
        for style, text, *_ in reversed(to_formatted_text(ANSI(self._unfinished.expandtabs()))):
            shown.insert(0, (style, text[-room:]))
            room -= len(text)
            if room <= 0:
                break
        return shown

    @property
    def descriptor(self) -> int:
        return self._output.fileno()

    @property
    def _width(self) -> int:
        return self._output.get_size().columns or DEFAULT_WIDTH


def _last_version(line: str) -> str:
    """The visible text of a line that was erased and rewritten."""
    return line.rpartition(ERASE)[2]


def _style_after(text: str) -> str:
    """The codes of the styles that are on at the end of a text."""
    return "".join(_STYLE.findall(text.rpartition(RESET)[2]))
