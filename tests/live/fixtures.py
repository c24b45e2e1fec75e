"""What tests of live deltas share: events by short names, and a client that believes nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from holdfast.kernel.events import ToolFinished, ToolProgressed
from holdfast.kernel.messages import Text, ToolResult
from holdfast.kernel.model import TextDelta
from holdfast.live.broadcast import AttemptReset, DeltaWriter, Live, LiveCursor, LiveEvent
from holdfast.live.buffer import AttemptId, DeltaRange
from holdfast.live.delta_fragments import Fragment, joined, kin

CHAT = "c"
FIRST = AttemptId(1, 1, 1)
SECOND = AttemptId(1, 1, 2)
THIRD = AttemptId(2, 1, 1)


def say(writer: DeltaWriter, *texts: str) -> None:
    for text in texts:
        writer.put(TextDelta(text))


def progress(text: str, call_id: str = "a") -> ToolProgressed:
    return ToolProgressed(call_id, "execute", "progress", text)


def finished(text: str, call_id: str = "a") -> ToolFinished:
    return ToolFinished(ToolResult(call_id, "execute", (Text(text),)), 1.0)


def text_of(deliveries: Iterable[LiveEvent]) -> str:
    return "".join(
        delivery.fragment.text
        for delivery in deliveries
        if isinstance(delivery, DeltaRange) and isinstance(delivery.fragment, TextDelta)
    )


async def shown(live: Live, after: LiveCursor | None = None) -> list[LiveEvent]:
    """What somebody gets who looks in now."""
    async with live.read(CHAT, after) as reader:
        return reader.take()


def in_few(fragments: Iterable[Fragment]) -> list[Fragment]:
    """The same said with as few fragments as possible: two that are equal now say the same."""
    few: list[Fragment] = []
    for fragment in fragments:
        if few and kin(few[-1]) == kin(fragment):
            few[-1] = joined([few[-1], fragment])
        else:
            few.append(fragment)
    return few


@dataclass
class Client:
    """Somebody who is shown a chat, and fails at the first thing that does not fit."""

    attempt: AttemptId | None = None
    last: int = 0
    fragments: list[Fragment] = field(default_factory=list)

    @property
    def cursor(self) -> LiveCursor | None:
        return None if self.attempt is None else LiveCursor(self.attempt, self.last)

    def see(self, delivery: LiveEvent) -> None:
        if isinstance(delivery, AttemptReset):
            assert delivery.attempt == self.attempt, "a reset of what was never shown"
            self.attempt, self.last, self.fragments = None, 0, []
            return
        if self.attempt is not None:
            assert delivery.attempt == self.attempt, "another attempt without a reset"
        assert delivery.first == self.last + 1, "a gap"
        assert delivery.last >= delivery.first
        self.attempt, self.last = delivery.attempt, delivery.last
        self.fragments.append(delivery.fragment)
