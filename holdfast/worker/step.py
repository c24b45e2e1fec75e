"""The running step: how it is stopped, where its events go, and what it has produced so far."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container, Sequence
from typing import Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from holdfast.chat.rows import Charge, Fence
from holdfast.kernel.events import Event
from holdfast.kernel.execute import Batch
from holdfast.kernel.inbox import Inbox, Interruption
from holdfast.kernel.messages import Message, ToolCall, ToolResult
from holdfast.live.broadcast import DeltaWriter, Live
from holdfast.live.buffer import AttemptId

T = TypeVar("T")


class Stopped(Exception):
    """The step was stopped from outside. Its `RunningStep` keeps what it produced."""


class Unfinished(Struct, frozen=True, kw_only=True):
    """What is left of a step that was not committed."""

    partial: Message | None = None
    """The part of the answer that arrived; also a complete one."""
    half_written: Message | None = None
    """Incomplete calls, shown to people only."""
    whole: bool = False
    """Whether the answer is complete and only has to be committed."""
    results: Sequence[ToolResult] = ()
    charges: tuple[Charge, ...] = ()
    asking: bool = False
    """Whether a model call was under way."""


NOTHING: Final = Unfinished()


class Leftover(Struct, frozen=True):
    """What a step left, with the fence and the last message that it was begun on."""

    left: Unfinished
    fence: Fence
    last: int


def without(writes: Container[str], made: Sequence[ToolResult]) -> list[ToolResult]:
    """Return the results that count by themselves, without those that depend on writes."""
    return [one for one in made if one.call_id not in writes]


def _to_nobody(event: Event) -> None:
    """Discard an event: no attempt is running."""


class Screen:
    """The sink for the events of a step: the live stream of the attempt. Never full."""

    def __init__(self, live: Live) -> None:
        self.full = False
        self.warnings: list[str] = []
        self.put: Callable[[Event], None] = _to_nobody
        """Emits an event. Bound to the attempt directly, so that a delta costs one call less."""
        self._live = live
        self._writer: DeltaWriter | None = None

    @property
    def on(self) -> bool:
        return self._writer is not None

    @property
    def seq(self) -> int:
        return 0 if self._writer is None else self._writer.seq

    def open(self, fence: Fence) -> None:
        """Begin an attempt. Fragments of an earlier one are void; its calls continue."""
        attempt = AttemptId(fence.epoch, fence.history_version, fence.attempt)
        if self._writer is None or self._writer.attempt != attempt:
            self._writer = self._live.open(fence.chat, attempt, after=self._writer)
            self.put = self._writer.put

    def close(self) -> None:
        writer, self._writer = self._writer, None
        self.put = _to_nobody
        if writer is not None:
            writer.close()

    def warn(self, text: str) -> None:
        self.warnings.append(text)
        if self._writer is not None:
            self._writer.warn(text)

    async def room(self) -> None:
        return


class RunningStep:
    """The step that is running, at most one at a time."""

    def __init__(self, live: Live) -> None:
        self.screen = Screen(live)
        self.inbox = Inbox()
        self.interruption = self.inbox.interruption
        self.batch: Batch | None = None
        """The calls of an answer, from the stream that brings them to their results."""
        self.left = NOTHING

    def stop(self) -> None:
        """Stop the step, whatever it is doing."""
        self.interruption.request()

    def steer(self) -> None:
        """Announce to the step that a steering message waits."""
        if self.inbox.on_steer is not None:
            self.inbox.on_steer()

    def begin(self) -> None:
        """Begin a step, unless it was stopped before. The one before it is committed, so nothing of
        that is left to keep."""
        self.left = NOTHING
        self.end_if_stopped()

    def end_if_stopped(self) -> None:
        if self.interruption.requested:
            raise Stopped

    async def until_stopped(self, ask: Callable[[Interruption], Awaitable[T]]) -> T:
        """Await a hook, and raise `Stopped` if the step was interrupted meanwhile."""
        made = await ask(self.interruption)
        self.end_if_stopped()
        return made

    def abandon(self) -> None:
        """Cancel everything that the step has started, without waiting: the runner ends by an
        error."""
        batch, self.batch = self.batch, None
        if batch is not None:
            batch.interrupt()

    async def unwind(self, open_calls: Sequence[ToolCall]) -> Unfinished:
        """End everything that the step has started, and return what it had produced.

        Bounded: a tool that does not stop is abandoned after its grace.
        """
        batch, self.batch = self.batch, None
        left = self.left
        if batch is not None and batch.busy:
            await batch.discard()
            calls = left.partial.calls if left.partial is not None else open_calls
            known = {one.call_id for one in left.results}
            more = [one for one in batch.ran(calls) if one.call_id not in known]
            left = replace(left, results=(*left.results, *without(batch.writes, more)))
        self.screen.close()
        self.interruption.requested = False
        self.left = NOTHING
        return left
