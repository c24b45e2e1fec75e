"""Lays out a run on the terminal: the answer and the lines about it, kept apart.

They go to two streams, which may be one terminal, two, or none.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from holdfast.cli import run_texts
from holdfast.cli.markdown import Markdown
from holdfast.cli.output_stream import ERASE, OutputStream, StreamEscaper
from holdfast.cli.wrap import Wrap

BlockKind = Literal["", "text", "thoughts", "lines"]


class OutputPosition(Struct, eq=False):
    """Cursor state of a stream. Two streams on the same terminal share one."""

    block: BlockKind = ""
    """Kind of the last block written."""
    breaks: int = 2
    """Newlines written last. Initially 2, as if an empty line were above."""

    def wrote(self, text: str) -> None:
        ended = len(text) - len(text.rstrip("\n"))
        self.breaks = self.breaks + ended if ended == len(text) else ended

    def missing(self, block: BlockKind, apart: bool = False) -> str:
        """The newlines to write before more of `block`, or before a new one set `apart`."""
        wanted = 2 if self.block and (apart or block != self.block) else 1
        return "\n" * max(0, wanted - self.breaks)


class TranscriptWriter:
    """Arranges text, reasoning and lines below each other.

    A status line about what is pending is rewritten in place, and removed before other output.
    """

    def __init__(
        self, answer: OutputStream, status: OutputStream, clock: Callable[[], float] | None = None
    ) -> None:
        self.about: object = None
        """What the line above is about, for a writer with more lines about it."""
        self._answer = answer
        self._status = status
        self.clock = clock or time.monotonic
        self._on_status = OutputPosition()
        self._on_answer = (
            self._on_status if answer.terminal and status.terminal else OutputPosition()
        )
        # Without styles, the Markdown marks are kept.
        self._markdown = Markdown() if answer.color else StreamEscaper()
        self._wrap = Wrap(answer.width)
        self._thoughts = StreamEscaper()
        self._message_begun = False
        self._shown = False
        """Whether text of the current attempt was shown."""
        self._more_to_come = False
        """Whether a started text is incomplete, even if all of it is held back."""
        self._waits_for = ""
        self._since = 0.0
        self._drawn = ""
        """The status line as it was drawn."""

    # --- writing ---

    def _write(self, out: OutputStream, position: OutputPosition, text: str) -> None:
        """Write and flush, so that two streams on one terminal keep their order."""
        if text:
            out.write(text)
            out.flush()
            position.wrote(text)

    def _go_to(
        self, out: OutputStream, position: OutputPosition, block: BlockKind, apart: bool = False
    ) -> None:
        """Move to where more of `block` is written."""
        if self._on_answer is position and block != "text":
            self._pause_text()
        self._write(out, position, position.missing(block, apart))
        position.block = block

    def lines(self, *lines: str, about: object = None) -> None:
        """Write whole lines about the run, to the status stream."""
        self.settle()
        self._go_to(self._status, self._on_status, "lines")
        self._write(self._status, self._on_status, "".join(f"{line}\n" for line in lines))
        self.about = about

    def thoughts(self, text: str) -> None:
        """Write streamed reasoning, to the status stream."""
        self.settle()
        shown = self._thoughts.feed(text)
        if self._on_status.block != "thoughts":
            self.end_text()
            shown = shown.lstrip("\n")
            if not shown:
                return
            self._go_to(self._status, self._on_status, "thoughts")
            self.about = None
        dim = (self._status.style("dim", line) for line in shown.split("\n"))
        self._write(self._status, self._on_status, "\n".join(dim))

    def end(self) -> None:
        """Leave the terminal clean: styles ended, at the start of a line."""
        self.end_text()
        self.settle()
        if self._on_status.breaks == 0:
            self._write(self._status, self._on_status, "\n")

    def begin(self) -> None:
        """Start a run; questions may have been asked since the last, so the cursor has moved."""
        self.end()
        self.about = None
        if self._on_status.block:
            self._on_status.block, self._on_status.breaks = "lines", 1

    # --- the answer ---

    def text(self, text: str) -> None:
        """Write a piece of the answer, if people are reading."""
        if self._answer.terminal:
            self.settle()
            self.about = None
            self._more_to_come = True
            self._wrap.width = self._answer.width
            self._show(self._wrap.feed(self._markdown.feed(text)))

    def message(self, text: str) -> None:
        """Write a complete answer, unchanged for programs."""
        self.end_text()
        self._shown = False
        if self._on_status.block == "thoughts" and self._on_status.breaks == 0:
            self._write(self._status, self._on_status, "\n")
        if self._answer.terminal:
            self._message_begun = False
        elif text.strip():
            self.settle()
            apart = "\n" if self._message_begun else ""
            self._message_begun = True
            body = text.rstrip("\n")
            self._write(self._answer, self._on_answer, f"{apart}{body}\n")

    def give_up_text(self) -> bool:
        """Discard a failed attempt at an answer; returns whether any of it was shown."""
        self.end_text()
        shown, self._shown = self._shown, False
        self._message_begun = self._message_begun and not self._answer.terminal
        return shown

    def end_text(self) -> None:
        """End the text: show what was held back, and end its line."""
        if not self._answer.terminal:
            return
        self._more_to_come = False
        self._show(self._wrap.feed(self._markdown.end()) + self._wrap.end())
        if self._on_answer.block == "text" and self._on_answer.breaks == 0:
            self._write(self._answer, self._on_answer, "\n")

    def _show(self, text: str) -> None:
        position = self._on_answer
        if not self._message_begun or position.block != "text":
            text = text.lstrip("\n")
            if not text:
                return
            self._go_to(self._answer, position, "text", apart=not self._message_begun)
            self._message_begun = True
        self.about = None
        self._shown = self._shown or bool(text)
        self._write(self._answer, position, text)

    def _pause_text(self) -> None:
        """Let others write: suspend the styles until the text continues."""
        styles = self._markdown.pause() if isinstance(self._markdown, Markdown) else ""
        if held := self._wrap.feed(styles) + self._wrap.pause():
            self._show(held)

    # --- waiting ---

    def wait(self, what: str, since: float | None = None) -> None:
        """Show what is pending and for how long, in a line that is rewritten in place."""
        if what != self._waits_for:
            self.settle()
            self._waits_for, self._since = what, self.clock() if since is None else since
        if not self._status.cursor:
            return
        seconds = int(self.clock() - self._since)
        line = run_texts.cut(
            f"· {what}…{f' {seconds} s' if seconds else ''}", self._status.width - 1
        )
        if line == self._drawn:
            return
        if not self._drawn:
            self._go_to(self._status, self._on_status, "lines")
        self._status.write(ERASE + self._status.style("dim", line))
        self._status.flush()
        self._drawn = line

    def wait_below(self, what: str, since: float) -> None:
        """Like `wait`, unless another line is shown or text would be split."""
        if self._waits_for or self._more_to_come or self._on_status.block != "lines":
            return
        self.wait(what, since)

    def tick(self) -> None:
        """Update the elapsed time of the status line."""
        if self._waits_for:
            self.wait(self._waits_for)

    def erase_echo(self) -> None:
        """Erase the ^C that a terminal echoes at the start of a line."""
        self.settle()
        if self._status.cursor and self._on_status.breaks:
            self._status.write(ERASE)
            self._status.flush()

    def settle(self) -> None:
        """Remove the status line: nothing is pending."""
        what, self._waits_for = self._waits_for, ""
        if self._drawn:
            self._drawn = ""
            self._status.write(ERASE)
            self._status.flush()
        if what == "thinking" and self._status.terminal:
            took = run_texts.duration(self.clock() - self._since)
            self.lines(self._status.style("dim", f"· thought for {took}"))
