"""The value of an answer while it is streamed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from holdfast.kernel.events import OutputDelta
from holdfast.kernel.output import Output

GROWTH: Final = 32
"""A value is computed when the text has grown by this fraction, so the total cost is linear."""
NOTHING: Final = object()
"""No value yet."""


class PartialOutput:
    """Computes the value of an answer from the pieces of its text.

    A run emits these values by itself. For the stream of a durable chat: `add` the text of each
    `TextDelta`, `clear` when the output so far is void, and `end` when the answer is committed.
    """

    def __init__(self, output: Any) -> None:
        self._output = output if isinstance(output, Output) else Output(output)
        self._earlier: tuple[str, ...] = ()
        self._pieces: list[str] = []
        self._length = 0
        self._next = 0
        """Length of the text at which the value is computed again."""
        self._last: Any = NOTHING

    def clear(self, earlier: Sequence[str] = ()) -> None:
        """Begin an answer. `earlier` has the pieces that it continues, if it was cut by length."""
        self._earlier, self._pieces = tuple(earlier), []
        self._length, self._next, self._last = sum(map(len, earlier)), 0, NOTHING

    def add(self, text: str, *, compute: bool = True) -> OutputDelta | None:
        """Add a piece. Returns the value so far if it changed, unless `compute` is false.

        For a long text only some pieces give one; the next one has what they added.
        """
        self._pieces.append(text)
        self._length += len(text)
        if not compute or self._length < self._next:
            return None
        self._next = self._length + self._length // GROWTH
        value = self._value(complete=False)
        if value is NOTHING or value == self._last:
            return None
        self._last = value
        return OutputDelta(value)

    def end(self) -> OutputDelta | None:
        """The value at the end of the answer; None if there is none."""
        value = self._value(complete=True) if self._pieces else NOTHING
        self._last = value
        return None if value is NOTHING else OutputDelta(value, complete=True)

    def _value(self, *, complete: bool) -> Any:
        text = "".join(self._pieces)
        self._pieces = [text]
        for reading in self._readings(text):
            value = self._output.partial(reading, NOTHING, complete=complete)
            if value is not NOTHING:
                return value
        return NOTHING

    def _readings(self, text: str) -> Iterator[str]:
        """The whole answer, and what is left of it if the model began anew."""
        yield "".join((*self._earlier, text))
        if self._earlier:
            yield text
