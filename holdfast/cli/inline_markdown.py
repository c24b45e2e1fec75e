"""Markdown within a line: parses the span at a special character, once it is certain.

A style starts only when its end has arrived too, so that a lone `*` stays one. Until then the text
is held, at most to the end of the line, and at most `MAX_HELD` characters
(`MAX_HELD_LINK` for an address).
"""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

from holdfast.cli.output_stream import TextStyle

MAX_HELD: Final = 300
MAX_HELD_LINK: Final = 1_000
SPECIAL: Final = re.compile(r"[\\`*_\[]")
CODE_STYLES: Final[tuple[TextStyle, ...]] = ("cyan",)

_ESCAPABLE: Final = frozenset("\\`*_{}#+-.!|<>~")
_TARGET: Final = re.compile(r"(<[^<>]*>|\S*)(?:\s+(?:\"[^\"]*\"|'[^']*'))?")
_AROUND: Final = {
    "*": re.compile(r"[\\`*]"),
    "_": re.compile(r"[\\`_]"),
    "[": re.compile(r"[\\`\[\]]"),
    "(": re.compile(r"[\\()]"),
}
"""Pattern of what to examine between a mark and its end."""
_BEFORE_EMPHASIS: Final = frozenset("([{<>\"'-:;,!?|*_~")
"""A `*` after anything else is a product, a pattern or part of an address."""

TextStyles = tuple[TextStyle, ...]


class Span(Struct, frozen=True, gc=False):
    """The element that starts at a special character."""

    used: int
    """Characters of the source it takes."""
    text: str
    styles: TextStyles = ()
    nested: bool = False
    """Whether the text is Markdown itself."""
    suffix: str = ""
    """Text printed after the element, dim."""


def span(line: str, at: int, over: bool, before: str) -> Span | None:
    """Parse the element at `line[at]`, after the character `before`. None while it is uncertain.

    Once it is certain, more text would not change it. `over`: the line ends where `line` does.
    """
    match line[at]:
        case "\\":
            return _escape(line[at : at + 2], over)
        case "[":
            return _link(line, at, over)
        case mark:
            window = line[at : at + MAX_HELD]
            over = over or len(line) - at >= MAX_HELD
            run = run_at(window, 0)
            if run == len(window) and not over:
                return None
            if mark == "`":
                return _code(window, run, over)
            return _emphasis(window, run, over, before)


def run_at(text: str, at: int) -> int:
    """Length of the run of the character at `at`."""
    return len(text) - at - len(text[at:].lstrip(text[at]))


def _escape(pair: str, over: bool) -> Span | None:
    if len(pair) == 1:
        return Span(1, pair) if over else None
    if pair[1] in _ESCAPABLE:
        return Span(2, pair[1])
    # These two start a formula far more often than an escaped bracket.
    return Span(2, pair) if pair[1] in "[]" else Span(1, "\\")


def _code(window: str, run: int, over: bool) -> Span | None:
    end = _code_end(window, run, run, over)
    if end is None:
        return None
    if end < 0:
        return Span(run, window[:run])
    text = window[run:end]
    if len(text) > 2 and text[0] == text[-1] == " " and text.strip():
        text = text[1:-1]
    return Span(end + run, text, CODE_STYLES)


def _code_end(text: str, at: int, run: int, over: bool) -> int | None:
    """Position of the next run of exactly `run` backticks; -1 if there is none."""
    while (at := text.find("`", at)) >= 0:
        found = run_at(text, at)
        if at + found == len(text) and not over:
            return None
        if found == run:
            return at
        at += found
    return -1 if over else None


_EMPHASIS: Final[dict[int, TextStyles]] = {1: ("italic",), 2: ("bold",), 3: ("bold", "italic")}


def _emphasis(window: str, run: int, over: bool, before: str) -> Span | None:
    mark, after = window[0], window[run : run + 1]
    literal = Span(run, window[:run])
    if run > (3 if mark == "*" else 1) or not after or after.isspace():
        return literal
    if not _may_begin(mark, before):
        return literal
    end = _emphasis_end(window, run, over)
    if end is None:
        return None
    if end < 0:
        return literal
    return Span(end + run, window[run:end], _EMPHASIS[run], nested=True)


def _may_begin(mark: str, before: str) -> bool:
    if not before or before.isspace() or before in _BEFORE_EMPHASIS:
        return True
    # Many languages are written without spaces.
    return not before.isascii() and (mark == "*" or not before.isalnum())


def _emphasis_end(text: str, run: int, over: bool) -> int | None:
    """Position where emphasis started by a run of marks ends; -1 if it does not."""
    mark, inner, at = text[0], False, run
    marks = _AROUND[mark]
    while (found := marks.search(text, at)) is not None:
        at = found.start()
        if text[at] != mark:
            end = _skip(text, at, over)
            if end is None:
                return None
            at = end
            continue
        size = run_at(text, at)
        after = text[at + size : at + size + 1]
        if not after and not over:
            return None
        ends = _may_end(mark, size, text[at - 1], after)
        if ends and size == run:
            return at
        if ends and inner and size == 3:
            return at + 3 - run  # both end here, the inner one first
        if size == 3 - run:
            inner = not ends if inner else bool(after.strip())
        at += size
    return -1 if over else None


def _skip(text: str, at: int, over: bool) -> int | None:
    """End of an escape or code span, within which nothing is a mark."""
    if text[at] == "\\":
        return at + 2
    ticks = run_at(text, at)
    end = _code_end(text, at + ticks, ticks, over)
    return None if end is None else max(at, end) + ticks


def _may_end(mark: str, run: int, before: str, after: str) -> bool:
    if before.isspace():
        return False
    if mark == "*":
        return run > 1 or not (after.isascii() and after.isalnum())
    return not after.isalnum()


def _link(line: str, at: int, over: bool) -> Span | None:
    window = line[at : at + MAX_HELD]
    whole = over or len(line) - at >= MAX_HELD
    close = _matching(window, whole)
    if close is None:
        return None
    literal = Span(1, "[")
    if close < 0:
        return literal
    after = at + close + 1
    if after == len(line):
        return literal if over else None
    if line[after] != "(":
        return literal
    target = line[after : after + MAX_HELD_LINK]
    end = _matching(target, over or len(line) - after >= MAX_HELD_LINK)
    if end is None:
        return None
    inside = _TARGET.fullmatch(target[1:end].strip()) if end > 0 else None
    if inside is None:
        return literal
    text, address = window[1:close], inside[1].strip("<>")
    same = address.removeprefix("mailto:").rstrip("/") == text.rstrip("/")
    suffix = "" if same or not address else f" ({address})" if text else address
    return Span(close + end + 2, text, ("underline",), nested=True, suffix=suffix)


def _matching(text: str, over: bool) -> int | None:
    """Position of the bracket that closes the one `text` starts with; -1 if there is none."""
    opening, depth, at = text[0], 0, 0
    marks = _AROUND[opening]
    if ("]" if opening == "[" else ")") not in text:
        return -1 if over else None
    while (found := marks.search(text, at)) is not None:
        at = found.start()
        if text[at] in "\\`":
            end = _skip(text, at, over)
            if end is None:
                return None
            at = end
            continue
        depth += 1 if text[at] == opening else -1
        if not depth:
            return at
        at += 1
    return -1 if over else None
