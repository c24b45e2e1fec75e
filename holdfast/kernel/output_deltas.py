"""The events of an answer that is to have a form: its text, and its value so far."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.kernel.channel import Sink
from holdfast.kernel.events import Event, OutputDelta, ToolCalled, ToolFinished
from holdfast.kernel.messages import Message
from holdfast.kernel.model import CallStarted, TextDelta
from holdfast.kernel.output import Output, spoken
from holdfast.kernel.partial_output import PartialOutput


class OutputDeltas:
    """Follows the text of one answer with its value so far. Only if there is a reader."""

    def __init__(self, output: Output, history: Sequence[Message], sink: Sink) -> None:
        self._partial = PartialOutput(output)
        self._sink = sink
        if history and history[-1].why == "recovery":
            self._partial.clear(spoken(history))

    def __call__(self, event: Event) -> Event | None:
        """The event to be shown; None if it was."""
        if type(event) is TextDelta:
            self._sink.put(event)
            self._put(self._partial.add(event.text, compute=self._sink.has_reader))
            return None
        if isinstance(event, (CallStarted, ToolCalled, ToolFinished)):
            self._partial.clear()  # before a call, a model only announces what it does
        return event

    def end(self) -> None:
        """The answer is complete."""
        if self._sink.has_reader:
            self._put(self._partial.end())

    def _put(self, delta: OutputDelta | None) -> None:
        if delta is not None:
            self._sink.put(delta)
