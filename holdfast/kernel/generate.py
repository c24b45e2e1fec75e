"""One model call: a stream in, deltas out, an assembled answer at the end. Never tries twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Final

import anyio
import anyio.lowlevel

from holdfast.kernel.assemble import Assembly
from holdfast.kernel.channel import Sink
from holdfast.kernel.errors import (
    ContentFiltered,
    EmptyResponse,
    StreamCut,
    StreamSilent,
    StreamTooLong,
)
from holdfast.kernel.events import Event, ToolCalled
from holdfast.kernel.inbox import Interruption
from holdfast.kernel.messages import ToolCall
from holdfast.kernel.model import Delta, Model, Opened, Request, close
from holdfast.kernel.policy import Stream

CLOSING: Final = 5.0
"""Seconds that a stream may take to let go of its connection."""
BREATH: Final = 256
"""Events after which everybody else may run, also when the stream itself never waits."""


class Interrupted(Exception):
    """A person stopped the run while the model was answering."""


class Silence:
    """Cancels a stream that says nothing for too long.

    An event only stores when it came; the one timer, when it fires early, waits for what is left.
    The timer outlives a stream, so that a run of short streams does not pay for one each.
    """

    def __init__(self, limits: Stream) -> None:
        self.clock = asyncio.get_running_loop().time
        self.last = 0.0
        """When something was heard."""
        self.patience = 0.0
        self.waits_for_reader = False
        """It is our reader that is slow, not the provider."""
        self.fired = False
        self._limits = limits
        self._cancel: Callable[[], object] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def arm(self, cancel: Callable[[], object]) -> None:
        """Begin to listen to a stream."""
        self._cancel = cancel
        self.fired = self.waits_for_reader = False
        self.expect(self._limits.first_event)

    def expect(self, seconds: float) -> None:
        """From now on an event must come within this long."""
        self.last = self.clock()
        self.patience = seconds
        if self._timer is None or self._timer.when() > self.last + seconds:
            self._wait(seconds)

    def disarm(self) -> None:
        self._cancel = None

    def close(self) -> None:
        """Leave no timer behind."""
        self._cancel = None
        if self._timer is not None:
            self._timer.cancel()

    def _wait(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._check)

    def _check(self) -> None:
        self._timer = None
        if self._cancel is None:
            return
        left = self.last + self.patience - self.clock()
        if self.waits_for_reader:
            left = self.patience
        if left > 0:
            self._wait(left)
        else:
            self.fired = True
            self._cancel()


async def generate(
    model: Model,
    request: Request,
    assembly: Assembly,
    *,
    limits: Stream,
    silence: Silence,
    sink: Sink,
    interruption: Interruption,
    on_call: Callable[[ToolCall], None] | None = None,
    show: Callable[[Event], Event | None] | None = None,
) -> float | None:
    """Fill `assembly` with the model's answer. Gives back the seconds to the first delta.

    Raises `Interrupted`, or whatever made the attempt fail; `assembly` then has what had arrived.
    `on_call` hears of each call that is complete; `show` may change or hold back what people see.
    """
    scope = anyio.CancelScope()
    silence.arm(scope.cancel)
    interruption.stop = scope.cancel
    consumer = _Consumer(assembly, limits, silence, sink, interruption, on_call, show)
    stream: AsyncIterator[Delta] | None = None
    ended = False
    try:
        with scope:
            if interruption.requested:
                raise Interrupted
            stream = model.stream(request)
            ended = await consumer.consume(stream)
    except Exception as error:
        _explain(error, assembly, silence, interruption)
    finally:
        silence.disarm()
        interruption.stop = None
        if not ended and stream is not None:
            await _close(stream)
    if assembly.finish is None:
        _explain(StreamCut(), assembly, silence, interruption)
    if assembly.empty:
        raise ContentFiltered if assembly.finish == "content_filter" else EmptyResponse
    return consumer.first


class _Consumer:
    """Takes a stream in, delta by delta. Nothing is done here for each delta that could be done
    less often."""

    def __init__(
        self,
        assembly: Assembly,
        limits: Stream,
        silence: Silence,
        sink: Sink,
        interruption: Interruption,
        on_call: Callable[[ToolCall], None] | None,
        show: Callable[[Event], Event | None] | None,
    ) -> None:
        self.first: float | None = None
        self._assembly = assembly
        self._limits = limits
        self._silence = silence
        self._sink = sink
        self._interruption = interruption
        self._on_call = on_call
        self._show = show

    async def consume(self, stream: AsyncIterator[Delta]) -> bool:
        """Whether the stream came to its own end."""
        assembly, silence, sink = self._assembly, self._silence, self._sink
        interruption, limits, clock = self._interruption, self._limits, self._silence.clock
        began = silence.last
        left = limits.max_events
        plain = self._show is None
        async for delta in stream:
            if type(delta) is Opened:  # another model is asked, and given as long as the first
                self.first = None
                silence.expect(limits.first_event)
            elif self.first is None:
                silence.expect(limits.between_events)
                self.first = silence.last - began
            else:
                silence.last = clock()
            event = assembly.feed(delta)
            if event is not None:
                if plain and type(event) is not ToolCalled:
                    sink.put(event)
                else:
                    self._tell(event)
            if assembly.unannounced:
                self._tell_late()
            if interruption.requested or silence.fired:  # also where it goes on all the same
                return False
            left -= 1
            if left < 0:
                raise StreamTooLong(limits.max_events, "events")
            if assembly.size > limits.max_bytes:
                raise StreamTooLong(limits.max_bytes, "bytes")
            if assembly.finish is not None:
                silence.expect(CLOSING)
                return await _drain(stream, left)
            if sink.full:
                silence.waits_for_reader = True
                await sink.room()
                silence.waits_for_reader = False
                silence.last = clock()
            elif not left % BREATH:
                await anyio.lowlevel.checkpoint()
        return True

    def _tell(self, event: Event) -> None:
        if self._show is None:
            self._sink.put(event)
        else:
            shown = self._show(event)
            if shown is not None:
                self._sink.put(shown)
        if type(event) is ToolCalled and self._on_call is not None:
            self._on_call(event.call)

    def _tell_late(self) -> None:
        late, self._assembly.unannounced = self._assembly.unannounced, []
        for call in late:
            self._tell(ToolCalled(call))


async def _drain(stream: AsyncIterator[Delta], left: int) -> bool:
    """Read a finished stream to its own end, so that its connection can be used again."""
    async for _ in stream:
        left -= 1
        if left < 0:
            return False
    return True


def _explain(
    error: Exception, assembly: Assembly, silence: Silence, interruption: Interruption
) -> None:
    """Raise what really ended the stream: a stop of ours may surface as an error of the model."""
    if assembly.finish is not None:
        return  # the answer is complete: how the connection ended no longer matters
    if interruption.requested:
        raise Interrupted from None
    if silence.fired:
        raise StreamSilent(silence.patience) from None
    raise error


async def _close(stream: AsyncIterator[Delta]) -> None:
    """Let a stream that was left half way go of its connection, bounded."""
    with anyio.move_on_after(CLOSING, shield=True):
        try:
            await close(stream)
        except Exception:
            return  # it is being thrown away: how it complains about that is of no use to anybody
