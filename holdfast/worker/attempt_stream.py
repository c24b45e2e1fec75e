"""The event stream of the running attempt, as the sink of a step."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.chat.rows import Fence
from holdfast.kernel.events import Event
from holdfast.live.broadcast import DeltaWriter, Live
from holdfast.live.buffer import AttemptId


def _discard(event: Event) -> None:
    """Discard an event, because no attempt is running."""


class Screen:
    """Sends the events of a step to the live stream of the attempt. Never full."""

    def __init__(self, live: Live) -> None:
        self.full = False
        self.has_reader = True
        self.warnings: list[str] = []
        self.put: Callable[[Event], None] = _discard
        """Emits an event. Bound to the attempt directly, so that a delta costs one call less."""
        self._live = live
        self._writer: DeltaWriter | None = None

    @property
    def seq(self) -> int:
        """Sequence number of the last delta."""
        return 0 if self._writer is None else self._writer.seq

    def open(self, fence: Fence) -> None:
        """Begin an attempt. Deltas of an earlier one become void; its calls continue."""
        attempt = AttemptId(fence.epoch, fence.history_version, fence.attempt)
        if self._writer is None or self._writer.attempt != attempt:
            self._writer = self._live.open(fence.chat, attempt, after=self._writer)
            self.put = self._writer.put

    def close(self) -> None:
        writer, self._writer = self._writer, None
        self.put = _discard
        if writer is not None:
            writer.close()

    def warn(self, text: str) -> None:
        self.warnings.append(text)
        if self._writer is not None:
            self._writer.warn(text)

    async def room(self) -> None:
        """Return at once: there is always room."""
