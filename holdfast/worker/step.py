"""The running step: its interruption, the sink for its events, and its outcome so far."""

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
    """The step was stopped from outside. Its `RunningStep` keeps its outcome so far."""


class Unfinished(Struct, frozen=True, kw_only=True):
    """Outcome of a step that was not committed."""

    partial: Message | None = None
    """The received part of the answer, which may be all of it."""
    half_written: Message | None = None
    """Incomplete calls, shown to people only."""
    whole: bool = False
    """Whether the answer is complete and only needs to be committed."""
    results: Sequence[ToolResult] = ()
    charges: tuple[Charge, ...] = ()
    asking: bool = False
    """Whether a model call was under way."""


NOTHING: Final = Unfinished()


class Leftover(Struct, frozen=True):
    """Outcome of an uncommitted step, with the state of the chat that the step started from."""

    unfinished: Unfinished
    fence: Fence
    last_number: int
    """Number of the last message that was committed then."""


def without(writes: Container[str], tool_results: Sequence[ToolResult]) -> list[ToolResult]:
    """Return the results of calls without writes: the others are valid only with their writes."""
    return [result for result in tool_results if result.call_id not in writes]


def _discard(event: Event) -> None:
    """Discard an event, because no attempt is running."""


class Screen:
    """Sends the events of a step to the live stream of the attempt. Never full."""

    def __init__(self, live: Live) -> None:
        self.full = False
        self.warnings: list[str] = []
        self.put: Callable[[Event], None] = _discard
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
        return


class RunningStep:
    """The step that is running, at most one at a time."""

    def __init__(self, live: Live) -> None:
        self.screen = Screen(live)
        self.inbox = Inbox()
        self.interruption = self.inbox.interruption
        self.batch: Batch | None = None
        """The calls of an answer, from the stream that brings them to their results."""
        self.unfinished = NOTHING

    def stop(self) -> None:
        """Interrupt the step, whatever it is doing."""
        self.interruption.request()

    def steer(self) -> None:
        """Notify the step that a steering message is queued."""
        if self.inbox.on_steer is not None:
            self.inbox.on_steer()

    def begin(self) -> None:
        """Begin a step, or raise `Stopped`. Nothing is kept: the step before it was committed."""
        self.unfinished = NOTHING
        self.end_if_stopped()

    def end_if_stopped(self) -> None:
        if self.interruption.requested:
            raise Stopped

    async def unless_stopped(self, hook: Callable[[Interruption], Awaitable[T]]) -> T:
        """Await a hook, and raise `Stopped` if the step was interrupted meanwhile."""
        value = await hook(self.interruption)
        self.end_if_stopped()
        return value

    def abandon(self) -> None:
        """Cancel everything that the step has started, without waiting, as after an error."""
        batch, self.batch = self.batch, None
        if batch is not None:
            batch.interrupt()

    async def unwind(self, open_calls: Sequence[ToolCall]) -> Unfinished:
        """End everything that the step has started, and return its outcome so far.

        Time is bounded: a tool that does not stop is abandoned after its grace period.
        """
        batch, self.batch = self.batch, None
        unfinished = self.unfinished
        if batch is not None and batch.busy:
            await batch.discard()
            calls = unfinished.partial.calls if unfinished.partial is not None else open_calls
            call_ids = {result.call_id for result in unfinished.results}
            other_results = [
                result for result in batch.ran(calls) if result.call_id not in call_ids
            ]
            unfinished = replace(
                unfinished, results=(*unfinished.results, *without(batch.writes, other_results))
            )
        self.screen.close()
        self.interruption.requested = False
        self.unfinished = NOTHING
        return unfinished
