"""The step in flight: what may stop it, who watches it, and what it has produced so far."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container, Sequence
from typing import Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from holdfast.chat.state import Charge, Fence
from holdfast.kernel.events import Event
from holdfast.kernel.execute import Batch
from holdfast.kernel.inbox import Inbox, Interruption
from holdfast.kernel.messages import Message, ToolCall, ToolResult
from holdfast.live.deltas import Live, Writer
from holdfast.live.replay import Attempt

T = TypeVar("T")


class Stopped(Exception):
    """The step was stopped from outside. What it produced is kept in its `Flight`."""


class Unfinished(Struct, frozen=True, kw_only=True):
    """What is left of a step that was not committed."""

    partial: Message | None = None
    """What arrived of an answer; also a whole one."""
    whole: bool = False
    """Nothing is missing of it but its commit."""
    results: Sequence[ToolResult] = ()
    charges: tuple[Charge, ...] = ()
    runtime: int | None = None
    asking: bool = False
    """The model was being asked."""


NOTHING: Final = Unfinished()


class Aside(Struct, frozen=True):
    """What a step left, and the chat that it was begun on: its fence, and its last message."""

    left: Unfinished
    fence: Fence
    last: int


def without(writes: Container[str], made: Sequence[ToolResult]) -> list[ToolResult]:
    """Results that count by themselves: one that speaks of writes is nothing without them."""
    return [one for one in made if one.call_id not in writes]


def _to_nobody(event: Event) -> None:
    """No attempt runs: nobody watches."""


class Screen:
    """Where the events of a step go: to whoever watches the attempt. Never full."""

    def __init__(self, live: Live) -> None:
        self.full = False
        self.warnings: list[str] = []
        self.put: Callable[[Event], None] = _to_nobody
        """Show an event. It is the attempt's own, so that a delta costs one call less."""
        self._live = live
        self._writer: Writer | None = None

    @property
    def on(self) -> bool:
        return self._writer is not None

    @property
    def seq(self) -> int:
        return 0 if self._writer is None else self._writer.seq

    def open(self, fence: Fence) -> None:
        """An attempt begins. What was shown of an earlier one is over; its calls go on."""
        attempt = Attempt(fence.epoch, fence.history_version, fence.attempt)
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


class Flight:
    """At most one step is in it at a time."""

    def __init__(self, live: Live) -> None:
        self.screen = Screen(live)
        self.inbox = Inbox()
        self.interruption = self.inbox.interruption
        self.batch: Batch | None = None
        """The calls of an answer, from the stream that brings them to their results."""
        self.left = NOTHING

    def stop(self) -> None:
        """Whatever the step is at, it is not wanted any more."""
        self.interruption.request()

    def steer(self) -> None:
        """A message waits that the step should know of."""
        if self.inbox.on_steer is not None:
            self.inbox.on_steer()

    def begin(self) -> None:
        """A step begins, unless it was stopped before. The one before it is committed: should this
        one be stopped at once, nothing is left of that."""
        self.left = NOTHING
        self.end_if_stopped()

    def end_if_stopped(self) -> None:
        if self.interruption.requested:
            raise Stopped

    async def until_stopped(self, ask: Callable[[Interruption], Awaitable[T]]) -> T:
        """Somebody's answer, for whom an interruption is not worth waiting."""
        made = await ask(self.interruption)
        self.end_if_stopped()
        return made

    def abandon(self) -> None:
        """The runner ends, and not in order: nobody waits for what its step has started."""
        batch, self.batch = self.batch, None
        if batch is not None:
            batch.interrupt()

    async def unwind(self, open_calls: Sequence[ToolCall]) -> Unfinished:
        """End what the step has started, and give what it had produced.

        Bounded: a tool that does not obey is left behind after its grace.
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
