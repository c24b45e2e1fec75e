"""What people look at while a run goes on: the answer and the lines about it, kept apart.

The two go to two streams, which may be one terminal, two, or none.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from holdfast.cli import wording
from holdfast.cli.markdown import Markdown
from holdfast.cli.terminal import ERASE, Out, Safe
from holdfast.cli.wrap import Wrap

Block = Literal["", "text", "thoughts", "lines"]


class Place(Struct, eq=False):
    """Where the cursor is. Two streams that are the same terminal share one."""

    block: Block = ""
    """What stands last there."""
    breaks: int = 2
    """Line ends that were written last. At first nothing is above, as if that were empty."""

    def wrote(self, text: str) -> None:
        ended = len(text) - len(text.rstrip("\n"))
        self.breaks = self.breaks + ended if ended == len(text) else ended

    def missing(self, block: Block, apart: bool = False) -> str:
        """The line ends before more of `block`, or before a new one when it is set `apart`."""
        wanted = 2 if self.block and (apart or block != self.block) else 1
        return "\n" * max(0, wanted - self.breaks)


class Page:
    """Puts text, thoughts and lines below each other, each where it belongs.

    A line about what is waited for is written anew in its place, and gone when anything else comes.
    """

    def __init__(self, answer: Out, status: Out, clock: Callable[[], float] | None = None) -> None:
        self.about: object = None
        """What the line above is about, for who has more to say about it."""
        self._answer = answer
        self._status = status
        self.clock = clock or time.monotonic
        self._on_status = Place()
        self._on_answer = self._on_status if answer.terminal and status.terminal else Place()
        # Without styles the marks of Markdown are what is left to see.
        self._markdown = Markdown() if answer.color else Safe()
        self._wrap = Wrap(answer.width)
        self._thoughts = Safe()
        self._message_begun = False
        self._shown = False
        """Some text of the attempt that is going on."""
        self._more_to_come = False
        """Of a text that has begun, also where all of it is held back."""
        self._waits_for = ""
        self._since = 0.0
        self._drawn = ""
        """The line about what is waited for, as it stands there."""

    # --- writing ---

    def _write(self, out: Out, place: Place, text: str) -> None:
        """At once, so that two streams that are one terminal keep their order."""
        if text:
            out.write(text)
            out.flush()
            place.wrote(text)

    def _go_to(self, out: Out, place: Place, block: Block, apart: bool = False) -> None:
        """To where more of `block` is written."""
        if self._on_answer is place and block != "text":
            self._pause_text()
        self._write(out, place, place.missing(block, apart))
        place.block = block

    def lines(self, *lines: str, about: object = None) -> None:
        """Whole lines, beside the answer."""
        self.settle()
        self._go_to(self._status, self._on_status, "lines")
        self._write(self._status, self._on_status, "".join(f"{line}\n" for line in lines))
        self.about = about

    def thoughts(self, text: str) -> None:
        """Reasoning as it comes, beside the answer."""
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
        """Leave the terminal as one would like to find it: styles ended, at the start of a line."""
        self.end_text()
        self.settle()
        if self._on_status.breaks == 0:
            self._write(self._status, self._on_status, "\n")

    def begin(self) -> None:
        """Since the last run, somebody may have been asked something: the cursor is behind that."""
        self.end()
        self.about = None
        if self._on_status.block:
            self._on_status.block, self._on_status.breaks = "lines", 1

    # --- the answer ---

    def text(self, text: str) -> None:
        """A piece of the answer: people see it grow."""
        if self._answer.terminal:
            self.settle()
            self.about = None
            self._more_to_come = True
            self._wrap.width = self._answer.width
            self._show(self._wrap.feed(self._markdown.feed(text)))

    def message(self, text: str) -> None:
        """The whole of an answer: a program gets it as the model wrote it."""
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
        """The attempt at an answer failed. Whether any of it was shown."""
        self.end_text()
        shown, self._shown = self._shown, False
        self._message_begun = self._message_begun and not self._answer.terminal
        return shown

    def end_text(self) -> None:
        """No more is coming of this text: show what was held back, and end its line."""
        if not self._answer.terminal:
            return
        self._more_to_come = False
        self._show(self._wrap.feed(self._markdown.end()) + self._wrap.end())
        if self._on_answer.block == "text" and self._on_answer.breaks == 0:
            self._write(self._answer, self._on_answer, "\n")

    def _show(self, text: str) -> None:
        place = self._on_answer
        if not self._message_begun or place.block != "text":
            text = text.lstrip("\n")
            if not text:
                return
            self._go_to(self._answer, place, "text", apart=not self._message_begun)
            self._message_begun = True
        self.about = None
        self._shown = self._shown or bool(text)
        self._write(self._answer, place, text)

    def _pause_text(self) -> None:
        """Let others write: styles end here, and begin again when the text goes on."""
        styles = self._markdown.pause() if isinstance(self._markdown, Markdown) else ""
        if held := self._wrap.feed(styles) + self._wrap.pause():
            self._show(held)

    # --- waiting ---

    def wait(self, what: str, since: float | None = None) -> None:
        """Say what is waited for and how long, in a line that is written anew in its place."""
        if what != self._waits_for:
            self.settle()
            self._waits_for, self._since = what, self.clock() if since is None else since
        if not self._status.cursor:
            return
        seconds = int(self.clock() - self._since)
        line = wording.cut(f"· {what}…{f' {seconds} s' if seconds else ''}", self._status.width - 1)
        if line == self._drawn:
            return
        if not self._drawn:
            self._go_to(self._status, self._on_status, "lines")
        self._status.write(ERASE + self._status.style("dim", line))
        self._status.flush()
        self._drawn = line

    def wait_below(self, what: str, since: float) -> None:
        """The same, unless something else is waited for, or would be torn apart."""
        if self._waits_for or self._more_to_come or self._on_status.block != "lines":
            return
        self.wait(what, since)

    def tick(self) -> None:
        """Time has passed: a line that says how long something takes says so."""
        if self._waits_for:
            self.wait(self._waits_for)

    def erase_echo(self) -> None:
        """A terminal shows the Ctrl-C that was typed: not on a line that we begin."""
        self.settle()
        if self._status.cursor and self._on_status.breaks:
            self._status.write(ERASE)
            self._status.flush()

    def settle(self) -> None:
        """Nothing is waited for any more."""
        what, self._waits_for = self._waits_for, ""
        if self._drawn:
            self._drawn = ""
            self._status.write(ERASE)
            self._status.flush()
        if what == "thinking" and self._status.terminal:
            took = wording.duration(self.clock() - self._since)
            self.lines(self._status.style("dim", f"· thought for {took}"))
