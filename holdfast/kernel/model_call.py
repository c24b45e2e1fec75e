"""One model call: consume the stream, emit deltas, assemble the answer. Never retries."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Final

import anyio
import anyio.lowlevel

from holdfast.kernel.assemble import Assembly
from holdfast.kernel.awaiting import is_cancelled
from holdfast.kernel.cancel_once import CancelOnce
from holdfast.kernel.channel import Sink
from holdfast.kernel.errors import (
    ContentFiltered,
    EmptyResponse,
    FinishedWithError,
    StreamCut,
    StreamTooLong,
)
from holdfast.kernel.events import Event, ToolCalled, Warned
from holdfast.kernel.idle_timeout import IdleTimeout
from holdfast.kernel.inbox import Interrupted, Interruption
from holdfast.kernel.messages import ToolCall
from holdfast.kernel.model import Delta, Model, Notice, Opened, Request, close
from holdfast.kernel.policy import Stream
from holdfast.kernel.result import RunCounters

BREATH: Final = 256
"""Number of events after which other tasks may run, even if the stream never waits."""


class ModelCaller:
    """Calls models for one run, one at a time.

    The path of a delta is kept short: work that is needed less often is done elsewhere.
    """

    def __init__(
        self, limits: Stream, sink: Sink, interruption: Interruption, counters: RunCounters
    ) -> None:
        self._counters = counters
        self._limits = limits
        self._sink = sink
        self._interruption = interruption
        self._idle = IdleTimeout(limits)
        self._loop = asyncio.get_running_loop()

    def close(self) -> None:
        self._idle.close()

    async def call(
        self,
        model: Model,
        request: Request,
        assembly: Assembly,
        on_call: Callable[[ToolCall], None] | None = None,
        show: Callable[[Event], Event | None] | None = None,
    ) -> float | None:
        """Fill `assembly` with the model's answer. Returns the seconds to the first delta.

        Raises `Interrupted`, or the error that made the attempt fail; `assembly` then has what
        arrived. `on_call` is called with each complete call; `show` may change or suppress events.
        """
        stop = CancelOnce(self._loop, self._limits.closing)
        self._idle.arm(stop.cancel)
        self._interruption.stop = stop.cancel
        dispatch = _Dispatcher(self._sink, on_call, show)
        stream: AsyncIterator[Delta] | None = None
        ended = False
        try:
            with stop:
                if self._interruption.requested:
                    raise Interrupted
                stream = model.stream(request)
                ended = await self._consume(stream, assembly, dispatch)
        except asyncio.CancelledError:
            if is_cancelled():
                raise
            self._explain(StreamCut(), assembly)  # we were not cancelled: the model raised it
        except Exception as error:
            self._explain(error, assembly)
        finally:
            self._counters.usage(assembly.usage)
            self._idle.disarm()
            self._interruption.stop = None
            if not ended and stream is not None:
                await _close(stream, self._limits.closing)
        if assembly.finish is None:
            self._explain(StreamCut(), assembly)
        if assembly.finish == "error":
            raise FinishedWithError
        if assembly.empty:
            raise ContentFiltered if assembly.finish == "content_filter" else EmptyResponse
        return dispatch.first

    async def _consume(
        self, stream: AsyncIterator[Delta], assembly: Assembly, dispatch: _Dispatcher
    ) -> bool:
        """Consume the stream. Returns whether it reached its own end."""
        idle, sink, interruption = self._idle, self._sink, self._interruption
        limits, clock, feed = self._limits, self._idle.clock, assembly.feed
        began, put, plain = idle.last, sink.put, dispatch.plain
        left = limits.max_events
        received = False
        async for delta in stream:
            kind, event = type(delta), feed(delta)
            if kind is Notice:  # about the request: neither part of an answer nor a sign of life
                dispatch.notice(event)
                event = None
            elif kind is Opened:  # another model is called, with the same timeout
                received = False
                idle.expect(limits.first_event)
            elif received:
                idle.last = clock()
            else:
                received = True
                idle.expect(limits.between_events)
            if event is not None:
                idle.content = idle.last
                if dispatch.first is None:  # a ping is not a delta of an answer
                    dispatch.first = idle.last - began
                if plain and type(event) is not ToolCalled:
                    put(event)
                else:
                    dispatch(event)
            if assembly.unannounced:
                dispatch.late(assembly)
            if interruption.requested or idle.fired:  # even if the stream continues
                return False
            left -= 1
            if left < 0:
                raise StreamTooLong(limits.max_events, "events")
            if assembly.size > limits.max_bytes:
                raise StreamTooLong(limits.max_bytes, "bytes")
            if assembly.finish is not None:
                idle.expect(limits.closing)
                return await _drain(stream, left)
            if sink.full:
                await self._wait_for_room()
            elif not left % BREATH:
                await anyio.lowlevel.checkpoint()
        return True

    async def _wait_for_room(self) -> None:
        """Wait for the run's own slow reader. The time does not count as idle."""
        idle = self._idle
        idle.waits_for_reader = True
        await self._sink.room()
        idle.waits_for_reader = False
        idle.last = idle.content = idle.clock()

    def _explain(self, error: Exception, assembly: Assembly) -> None:
        """Raise the real cause: our own cancellation may surface as the model's error."""
        if assembly.finish is not None:
            return  # the answer is complete: how the connection ended no longer matters
        if self._interruption.requested:
            raise Interrupted from None
        if self._idle.fired:
            raise self._idle.error() from None
        try:
            raise error
        finally:
            del error  # its traceback refers to this frame


class _Dispatcher:
    """Dispatches the events of a stream to the sink and the callbacks."""

    __slots__ = ("_on_call", "_put", "_show", "_sink", "first", "plain")

    def __init__(
        self,
        sink: Sink,
        on_call: Callable[[ToolCall], None] | None,
        show: Callable[[Event], Event | None] | None,
    ) -> None:
        self.first: float | None = None
        """Seconds to the first delta."""
        self._put = sink.put
        self._on_call = on_call
        self._show = show
        self._sink = sink
        self.plain = show is None
        """Whether every event is shown unchanged."""

    def __call__(self, event: Event) -> None:
        shown = event if self._show is None else self._show(event)
        if shown is not None:
            self._put(shown)
        if type(event) is ToolCalled and self._on_call is not None:
            self._on_call(event.call)

    def notice(self, event: Event | None) -> None:
        """Show a warning, once in a run: a model may repeat it at every step."""
        shown = event if self._show is None or event is None else self._show(event)
        if isinstance(shown, Warned) and shown.text not in self._sink.warnings:
            self._sink.warn(shown.text)

    def late(self, assembly: Assembly) -> None:
        """Dispatch calls whose end the provider did not mark."""
        calls, assembly.unannounced = assembly.unannounced, []
        for call in calls:
            self(ToolCalled(call))


async def _drain(stream: AsyncIterator[Delta], left: int) -> bool:
    """Read a finished stream to its own end, so that its connection can be used again."""
    async for _ in stream:
        left -= 1
        if left < 0:
            return False
    return True


async def _close(stream: AsyncIterator[Delta], seconds: float) -> None:
    """Close an unfinished stream, with a timeout."""
    with anyio.move_on_after(seconds, shield=True):
        try:
            await close(stream)
        except Exception:
            return  # the stream is discarded: its error is of no use
