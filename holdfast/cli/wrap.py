"""Word wrap for a terminal, for text that is styled and still arriving."""

from __future__ import annotations

import re
from typing import Final
from unicodedata import category, east_asian_width

from holdfast.cli.graphemes import JOINER, JOINERS, TONES

_WIDE: Final = (
    r"\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6"
    r"\U0001f300-\U0001faff\U00020000-\U0003fffd"
)
"""Characters of scripts written without spaces: a line may end at each."""
_AS_EMOJI: Final = "\ufe0f"
_GOES_ON: Final = rf"{JOINERS}\ufe0e{_AS_EMOJI}\u20e3{TONES}"
"""Characters that belong to the one before: no line ends there."""
_TOKEN: Final = re.compile(
    rf"\x1b\[[0-9;]*m|\n| +|[{_GOES_ON}]|[{_WIDE}]|[^\x1b\n {_GOES_ON}{_WIDE}]+|\x1b"
)
_GOING_ON: Final = re.compile(f"[{_GOES_ON}]")
_IS_WIDE: Final = re.compile(f"[{_WIDE}]")
_STYLE: Final = re.compile(r"\x1b\[[0-9;]*m")
_MARK: Final = re.compile(r"[•│]|\d{1,3}[.)]")
"""Mark of a list item or a quotation: continuation lines are aligned after it."""


MIN_WIDTH: Final = 20
"""Minimum width in columns, whatever the terminal says."""


def cells(text: str) -> int:
    """Columns of a terminal that a text takes, without its styles.

    For joined emoji it is the maximum: some terminals show the parts side by side. A line that is
    too short does no harm; one that is too long is broken.
    """
    text = _STYLE.sub("", text)
    if text.isascii():
        return len(text)
    taken = last = 0
    for character in text:
        if character == _AS_EMOJI and last == 1:
            last = 1  # one column as a symbol is two as an emoji
        elif category(character) in ("Mn", "Me", "Cf"):
            last = 0  # combines with the one before, or is invisible
        else:
            last = 2 if east_asian_width(character) in "WF" else 1
        taken += last
    return taken


def folded(text: str, width: int) -> list[str]:
    """Wrap one line between words; continuation lines are indented."""
    wrap = Wrap(width, hang=2)
    return (wrap.feed(text) + wrap.end()).split("\n")


class Wrap:
    """Streaming word wrap: text goes in as it arrives, and comes out a word at a time.

    Preformatted lines (code between fences, rows of a table) are left alone, and so is a word that
    is longer than a line.
    """

    def __init__(self, width: int, hang: int = 0) -> None:
        """`hang`: indentation of continuation lines."""
        self.width = width
        """Current width: terminals are resized."""
        self._hang = hang
        self._word = ""
        self._new_text()

    def _new_text(self) -> None:
        self._code = False
        self._new_line()

    def _new_line(self) -> None:
        self._column = 0
        self._indent = 0
        self._blanks = ""
        self._first = True
        """Whether no word is on this line yet."""
        self._as_it_is = False
        """Whether this line is preformatted."""
        self._torn = False
        """Whether the line was interrupted by other output: it continues with a word."""
        self._joined = False
        """Whether the next text belongs to the last word written."""

    def feed(self, text: str) -> str:
        return "".join(map(self._take, _TOKEN.findall(text)))

    def end(self) -> str:
        """Return what was held back. After that, a new text may start."""
        held = self._flush()
        self._new_text()
        return held

    def pause(self) -> str:
        """Return what was held back, so that others can write. The text continues on a new line."""
        held = self._flush()
        self._column, self._indent, self._blanks = 0, 0, ""
        self._torn = not self._first
        return held

    def _take(self, token: str) -> str:
        if token == "\n":
            ended = self._flush() + self._blanks + token
            self._new_line()
            return ended
        if token[0] == " ":
            shown = self._flush()
            self._blanks += token
            self._joined = False
            return shown
        goes_on = _GOING_ON.match(token)
        if goes_on and not (self._word or self._blanks):
            self._joined = token == JOINER
            self._column += cells(token)
            return token
        if not goes_on and _IS_WIDE.match(token):
            shown = "" if self._word.endswith(JOINER) else self._flush()
            self._word += token
            return shown + self._flush()
        self._word += token
        return self._flush() if self._as_it_is and token[0] != "\x1b" else ""

    def _flush(self) -> str:
        if not self._word:
            return ""
        word, self._word = self._word, ""
        blanks, self._blanks = "" if self._torn else self._blanks, ""
        taken = cells(word)
        joined, self._joined = self._joined, False
        self._torn = self._torn and not taken
        if self._first and taken:
            self._begin(word, len(blanks) + taken)
        elif not joined and self._breaks(len(blanks) + taken):
            self._column = self._indent + taken
            return "\n" + " " * self._indent + word
        self._column += len(blanks) + taken
        return blanks + word

    def _begin(self, word: str, taken: int) -> None:
        """Classify the line by its first word."""
        self._first = False
        plain = _STYLE.sub("", word)
        fence = plain.startswith("```")
        self._as_it_is = self._code or fence or plain.startswith("|")
        self._code = self._code is not fence
        self._indent = taken + 1 if _MARK.fullmatch(plain) else taken - cells(word) + self._hang

    def _breaks(self, more: int) -> bool:
        if self._as_it_is or self._column <= self._indent:
            return False
        return self._column + more > max(self.width, MIN_WIDTH)
