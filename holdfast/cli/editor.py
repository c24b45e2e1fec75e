"""Line editor: the effect of each key on the line being typed. Pure."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

from holdfast.cli.graphemes import JOINERS, letters
from holdfast.cli.wrap import cells

PASTE_START: Final = "\x1b[200~"
PASTE_END: Final = "\x1b[201~"
"""Brackets around pasted text: a newline in it sends nothing."""
MAX_RECALLED_LINES: Final = 200
"""Lines kept for recall."""
GRAPHEME_WINDOW: Final = 100
"""Characters examined to find where a grapheme ends. None is that long."""

_KEY: Final = re.compile(
    r"\x1b\[200~(?P<pasted>.*?)\x1b\[201~"
    r"|(?P<sequence>\x1b\[[0-9;?]*[@-~]|\x1bO.|\x1b[^\[O])"
    r"|(?P<plain>[^\x1b])",
    re.DOTALL,
)


class LineEntered(NamedTuple):
    """A line was completed with Enter."""

    text: str


class InputEnded(NamedTuple):
    """The input ended, by Ctrl-D on an empty line."""


class InterruptPressed(NamedTuple):
    """Ctrl-C was pressed."""


InputEvent = LineEntered | InputEnded | InterruptPressed


class VisibleLine(NamedTuple):
    """The visible part of the line, around the cursor."""

    before: str
    after: str
    """The text from the cursor on."""


class Editor:
    """The line being typed, and the earlier ones."""

    def __init__(self) -> None:
        self.text = ""
        self._at = 0
        """Cursor position: where the next character is inserted."""
        self._held = ""
        """Start of an incomplete key sequence."""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._past: list[str] = []
        self._back = 0
        """How many lines the user has gone back in the history; 0: none."""
        self._draft = ""

    def feed(self, data: bytes) -> Iterator[InputEvent]:
        """Process input; yields each event before the next key is processed."""
        self._held += self._decoder.decode(data)
        while key := _KEY.match(self._held):
            if key["pasted"] is None and self._held.startswith(PASTE_START):
                break  # the rest of the sequence is still to come
            self._held = self._held[key.end() :]
            if key["pasted"] is not None:
                self._insert(_tidy(key["pasted"]))
            elif key["sequence"] is not None:
                self._press(key["sequence"])
            elif (what := self._type(key["plain"])) is not None:
                yield what

    def clear(self) -> bool:
        """Clear the line; returns whether there was anything."""
        some = bool(self.text)
        self._set("")
        return some

    def put(self, text: str) -> None:
        """Replace the line with a text to be edited."""
        self._set(text)

    def shown(self, width: int) -> VisibleLine:
        """The part around the cursor that fits. A newline is shown as a character."""
        text = self.text.replace("\n", "⏎")
        near = GRAPHEME_WINDOW + 2 * width
        before = letters(text[max(self._at - near, 0) : self._at])
        after = letters(text[self._at : self._at + near])
        left = _fitting(before[::-1], width - 1)[::-1]
        right = _fitting(after, width - sum(map(cells, left)))
        return VisibleLine("".join(left), "".join(right))

    # --- keys ---

    def _type(self, key: str) -> InputEvent | None:
        if key in "\r\n":
            return self._send()
        if key == "\x04" and not self.text:
            return InputEnded()
        if key == "\x03":
            return InterruptPressed()
        if action := _ACTIONS.get(key):
            action(self)
        elif key.isprintable() or key in JOINERS:
            self._insert(key)
        return None

    def _press(self, sequence: str) -> None:
        if sequence in ("\x1b\r", "\x1b\n"):  # Alt and Enter
            self._insert("\n")
        elif action := _ACTIONS.get(sequence):
            action(self)

    def _send(self) -> LineEntered:
        text = self.text
        self._set("")
        if text.strip() and self._past[-1:] != [text]:
            self._past = [*self._past, text][-MAX_RECALLED_LINES:]
        self._back = 0
        return LineEntered(text)

    def _set(self, text: str) -> None:
        self.text, self._at = text, len(text)

    def _insert(self, text: str) -> None:
        self.text = self.text[: self._at] + text + self.text[self._at :]
        self._at += len(text)

    def _remove(self, start: int, end: int) -> None:
        start, end = max(start, 0), min(end, len(self.text))
        self.text, self._at = self.text[:start] + self.text[end:], start

    def _go(self, to: int) -> None:
        self._at = min(max(to, 0), len(self.text))

    def _rub_out(self) -> None:
        self._remove(self._before(), self._at)

    def _delete(self) -> None:
        self._remove(self._at, self._after())

    def _left(self) -> None:
        self._go(self._before())

    def _right(self) -> None:
        self._go(self._after())

    def _before(self) -> int:
        """Start of the grapheme before the cursor."""
        near = letters(self.text[max(self._at - GRAPHEME_WINDOW, 0) : self._at])
        return self._at - len(near[-1] if near else "")

    def _after(self) -> int:
        """End of the grapheme after the cursor."""
        near = letters(self.text[self._at : self._at + GRAPHEME_WINDOW])
        return self._at + len(near[0] if near else "")

    def _home(self) -> None:
        self._go(0)

    def _end(self) -> None:
        self._go(len(self.text))

    def _cut_before(self) -> None:
        self._remove(0, self._at)

    def _cut_after(self) -> None:
        self._remove(self._at, len(self.text))

    def _cut_word(self) -> None:
        before = self.text[: self._at].rstrip()
        self._remove(len(before) - len(before.split()[-1] if before else ""), self._at)

    def _earlier(self) -> None:
        if self._back < len(self._past):
            if self._back == 0:
                self._draft = self.text
            self._back += 1
            self._set(self._past[-self._back])

    def _later(self) -> None:
        if self._back > 0:
            self._back -= 1
            self._set(self._past[-self._back] if self._back else self._draft)


_ACTIONS: Final[Mapping[str, Callable[[Editor], None]]] = {
    "\x01": Editor._home,
    "\x02": Editor._left,
    "\x04": Editor._delete,
    "\x05": Editor._end,
    "\x06": Editor._right,
    "\x08": Editor._rub_out,
    "\x0b": Editor._cut_after,
    "\x0e": Editor._later,
    "\x10": Editor._earlier,
    "\x15": Editor._cut_before,
    "\x17": Editor._cut_word,
    "\x7f": Editor._rub_out,
    "\x1b[3~": Editor._delete,
    "\x1b[A": Editor._earlier,
    "\x1b[B": Editor._later,
    "\x1b[C": Editor._right,
    "\x1b[D": Editor._left,
    "\x1b[F": Editor._end,
    "\x1b[H": Editor._home,
    "\x1bOA": Editor._earlier,
    "\x1bOB": Editor._later,
    "\x1bOC": Editor._right,
    "\x1bOD": Editor._left,
    "\x1bOF": Editor._end,
    "\x1bOH": Editor._home,
}


def _fitting(found: Sequence[str], width: int) -> list[str]:
    """As many graphemes as fit into a number of columns, from the first on."""
    taken = accumulate(map(cells, found))
    return [letter for letter, used in zip(found, taken, strict=True) if used <= width]


def _tidy(pasted: str) -> str:
    """Pasted text without control characters."""
    plain = pasted.replace("\r\n", "\n").replace("\r", "\n").replace("\t", "    ").strip("\n")
    return "".join(one for one in plain if one in f"\n{JOINERS}" or one.isprintable())
