"""Streaming Markdown renderer for a terminal: written text is never rewritten.

    markdown = Markdown()
    for piece in pieces:
        out.write(markdown.feed(piece))
    out.write(markdown.end())

Text is held back while its meaning is uncertain: at most to the end of its line, and only a
little of it. An element that stays open longer is shown as it was written.

It supports the Markdown that models write, not all of it: emphasis ends on its line, `__init__` is
not bold, `\\(` and `\\[` start a formula, and tables and HTML are left as they are.
"""

from __future__ import annotations

import re
from typing import Final, Literal

from msgspec import Struct

from holdfast.cli.inline_markdown import (
    CODE_STYLES,
    MAX_HELD,
    SPECIAL,
    Span,
    TextStyles,
    run_at,
    span,
)
from holdfast.cli.output_stream import RESET, StreamEscaper, begin

RULE: Final = "─" * 40
_ONLY_MARKS: Final = re.compile(r"([-*_])[ \t]*(?:\1[ \t]*)*")

LineState = Literal["start", "number", "point", "text", "table", "code_start", "code"]


class CodeFence(Struct, frozen=True, gc=False):
    """The fence that started a code block, and so what can end it."""

    mark: str
    run: int
    indent: int
    quotes: int


class StyledText:
    """Writes text in styles, and changes them only where needed."""

    def __init__(self) -> None:
        self._styles: TextStyles = ()
        self._written: list[str] = []

    def write(self, text: str, styles: TextStyles = ()) -> None:
        if not text:
            return
        if styles != self._styles:
            self.rest()
            self._written.append(begin(*styles))
            self._styles = styles
        self._written.append(text)

    def rest(self) -> None:
        if self._styles:
            self._written.append(RESET)
            self._styles = ()

    def take(self) -> str:
        written, self._written = "".join(self._written), []
        return written


class Markdown:
    """Renderer: pieces of Markdown in, text for a terminal out, as soon as it is certain."""

    def __init__(self) -> None:
        self._safe = StreamEscaper()
        self._pen = StyledText()
        self._held = ""
        self._fence: CodeFence | None = None
        self._new_line()

    def feed(self, text: str) -> str:
        self._advance(self._safe.feed(text), over=False)
        return self._pen.take()

    def end(self) -> str:
        """Return what was held back. After that, a new text may start."""
        self._advance(self._safe.end(), over=True)
        self._pen.rest()
        self._fence = None
        self._new_line()
        return self._pen.take()

    def pause(self) -> str:
        """Suspend the styles, so that others can write. The next piece restores them."""
        self._pen.rest()
        return self._pen.take()

    def _new_line(self) -> None:
        self._where: LineState = "code_start" if self._fence else "start"
        self._styles: TextStyles = ()
        self._indent = 0
        self._quotes = 0
        self._before = ""
        """The last character of this line."""

    def _advance(self, text: str, over: bool) -> None:
        text = self._held + text
        at = 0
        while (end := text.find("\n", at)) >= 0:
            self._line(text[at:end], over=True)
            self._pen.rest()
            self._pen.write("\n")
            if self._fence and self._quotes < self._fence.quotes:
                self._fence = None  # the quotation around it has ended
            self._new_line()
            at = end + 1
        self._held = text[at:]
        if self._held:
            self._held = self._held[self._line(self._held, over) :]

    def _line(self, line: str, over: bool) -> int:
        """Write what is certain of (the rest of) a line; returns how much."""
        at = 0
        while at < len(line):
            used = self._step(line, at, over)
            if used is None:
                break
            at += used
        if at:
            self._before = line[at - 1]
        return at

    def _step(self, line: str, at: int, over: bool) -> int | None:
        """One step; returns how many characters it took, 0 if it only classified the line."""
        rest = line[at : at + MAX_HELD]
        ends = over and len(line) - at <= MAX_HELD
        match self._where:
            case "text":
                before = line[at - 1] if at else self._before
                return self._spans(line, at, over, self._styles, before)
            case "start":
                return self._start(rest, ends, over or len(line) - at > MAX_HELD)
            case "number" | "point":
                return self._number(rest)
            case "table":
                return self._table(line[at:])
            case "code_start":
                return self._code_start(rest, ends, over or len(line) - at > MAX_HELD)
            case "code":
                self._pen.write(line[at:], CODE_STYLES)
                return len(line) - at

    def _go(self, where: LineState) -> int:
        self._where = where
        return 0

    # --- where a line begins ---

    def _start(self, rest: str, ends: bool, known: bool) -> int | None:
        """`ends`: the line ends with `rest`. `known`: more text would not matter."""
        first = rest[0]
        if first in " \t":
            return self._spaces(rest)
        if first.isascii() and first.isdigit():
            return self._go("number")
        if first in "-*_" and _ONLY_MARKS.fullmatch(rest):
            if not known:
                return None
            if ends and rest.count(first) >= 3:
                self._pen.write(RULE, ("dim",))
                return len(rest)
        if first in "-*+":
            return self._bullet(rest, known)
        if first == "#":
            return self._heading(rest, known)
        if first == ">":
            return self._quote(rest, known)
        if first in "`~":
            return self._open_fence(rest, ends, known)
        return self._go("table" if first == "|" else "text")

    def _spaces(self, rest: str) -> int:
        count = len(rest) - len(rest.lstrip(" \t"))
        self._pen.write(rest[:count])
        self._indent += count
        return count

    def _number(self, rest: str) -> int:
        """Keep `12. ` as it is: most lines with a digit are not list items."""
        first = rest[0]
        if self._where == "point":
            return self._go("start" if first in " \t" else "text")
        if first.isascii() and first.isdigit():
            self._indent += 1
        elif first in ".)":
            self._indent += 1
            self._where = "point"
        else:
            return self._go("text")
        self._pen.write(first)
        return 1

    def _bullet(self, rest: str, known: bool) -> int | None:
        if len(rest) == 1 and not known:
            return None
        if rest[1:2] not in ("", " ", "\t"):
            return self._go("text")
        self._pen.write("•")
        self._indent += 1
        return 1

    def _heading(self, rest: str, known: bool) -> int | None:
        level = run_at(rest, 0)
        if level == len(rest) and not known:
            return None
        if level > 6 or rest[level : level + 1] not in ("", " ", "\t"):
            return self._go("text")
        self._styles = ("bold", "underline") if level == 1 else ("bold",)
        self._where = "text"
        return min(level + 1, len(rest))

    def _quote(self, rest: str, known: bool) -> int | None:
        if len(rest) == 1 and not known:
            return None
        if rest[1:2] == "=":
            return self._go("text")
        self._pen.write("│ ", ("dim",))
        self._quotes += 1
        return 2 if rest[1:2] == " " else 1

    def _open_fence(self, rest: str, ends: bool, known: bool) -> int | None:
        mark, run = rest[0], run_at(rest, 0)
        if not known and (run == len(rest) or run >= 3):
            return None
        if run < 3 or not ends or (mark == "`" and mark in rest[run:]):
            return self._go("text")
        self._fence = CodeFence(mark, run, self._indent, self._quotes)
        self._pen.write(rest, ("dim",))
        return len(rest)

    # --- code and tables ---

    def _code_start(self, rest: str, ends: bool, known: bool) -> int | None:
        fence = self._fence
        assert fence is not None
        if rest[0] in " \t":
            return self._spaces(rest)
        if self._quotes < fence.quotes:
            if rest[0] == ">":
                return self._quote(rest, known)
            self._fence = None
            return self._go("start")
        run = run_at(rest, 0) if rest[0] == fence.mark else 0
        if not run or rest[run:].strip():
            return self._go("code")
        if not known:
            return None
        if not ends or run < fence.run or self._indent > fence.indent + 3:
            return self._go("code")
        self._pen.write(rest, ("dim",))
        self._fence = None
        return len(rest)

    def _table(self, rest: str) -> int:
        for piece in re.split(r"(\|)", rest):
            self._pen.write(piece, ("dim",) if piece == "|" else ())
        return len(rest)

    # --- text ---

    def _spans(self, line: str, at: int, over: bool, styles: TextStyles, before: str) -> int | None:
        """Write the text of a line from `at` on; returns how much, None for nothing yet."""
        start = at
        while at < len(line):
            special = SPECIAL.search(line, at)
            stop = special.start() if special else len(line)
            self._pen.write(line[at:stop], styles)
            at = stop
            if special is None:
                break
            found = span(line, at, over, line[at - 1] if at > start else before)
            if found is None:
                break
            self._write(found, styles)
            at += found.used
        return at - start or None

    def _write(self, found: Span, styles: TextStyles) -> None:
        inner = styles + tuple(style for style in found.styles if style not in styles)
        if found.nested:
            self._spans(found.text, 0, True, inner, "")
        else:
            self._pen.write(found.text, inner)
        self._pen.write(found.suffix, (*styles, "dim"))
