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
from holdfast.kernel.events import Event, ToolCalled, Warned
from holdfast.kernel.inbox import Interruption
from holdfast.kernel.messages import ToolCall
from holdfast.kernel.model import Delta, Model, Notice, Opened, Request, close
from holdfast.kernel.outcome import Tally
from holdfast.kernel.policy import Stream
from holdfast.kernel.silence import Silence
from holdfast.kernel.stop import Stop

BREATH: Final = 256
"""Events after which everybody else may run, also when the stream itself never waits."""


class Interrupted(Exception):
    """A person stopped the run while the model was answering."""


class Caller:
    """Calls models for one run, one at a time.

    Nothing is done here for each delta that could be done less often.
    """

    def __init__(
        self, limits: Stream, sink: Sink, interruption: Interruption, tally: Tally
    ) -> None:
        self._tally = tally
        self._limits = limits
        self._sink = sink
        self._interruption = interruption
        self._silence = Silence(limits)
        self._loop = asyncio.get_running_loop()

    def close(self) -> None:
        self._silence.close()

    async def call(
        self,
        model: Model,
        request: Request,
        assembly: Assembly,
        on_call: Callable[[ToolCall], None] | None = None,
        show: Callable[[Event], Event | None] | None = None,
    ) -> float | None:
        """Fill `assembly` with the model's answer. Gives back the seconds to the first delta.

        Raises `Interrupted`, or whatever made the attempt fail; `assembly` then has what had
        arrived. `on_call` hears of each call that is complete; `show` may change or hold back what
        people see.
        """
        stop = Stop(self._loop, self._limits.closing)
        self._silence.arm(stop.cancel)
        self._interruption.stop = stop.cancel
        tell = _Teller(self._sink, on_call, show)
        stream: AsyncIterator[Delta] | None = None
        ended = False
        try:
            with stop:
                if self._interruption.requested:
                    raise Interrupted
                stream = model.stream(request)
                ended = await self._consume(stream, assembly, tell)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            self._explain(StreamCut(), assembly)  # nobody cancelled us: it was the model's doing
        except Exception as error:
            self._explain(error, assembly)
        finally:
            self._tally.usage(assembly.usage)
            self._silence.disarm()
            self._interruption.stop = None
            if not ended and stream is not None:
                await _close(stream, self._limits.closing)
        if assembly.finish is None:
            self._explain(StreamCut(), assembly)
        if assembly.empty:
            raise ContentFiltered if assembly.finish == "content_filter" else EmptyResponse
        return tell.first

    async def _consume(
        self, stream: AsyncIterator[Delta], assembly: Assembly, tell: _Teller
    ) -> bool:
        """Whether the stream came to its own end."""
        silence, sink, interruption = self._silence, self._sink, self._interruption
        limits, clock, feed = self._limits, self._silence.clock, assembly.feed
        began, put, plain = silence.last, sink.put, tell.plain
        left = limits.max_events
        heard = False
        async for delta in stream:
            kind, event = type(delta), feed(delta)
            if kind is Notice:  # about the request: no part of an answer, and no sign of life
                tell.notice(event)
                event = None
            elif kind is Opened:  # another model is asked, and given as long as the first
                heard = False
                silence.expect(limits.first_event)
            elif heard:
                silence.last = clock()
            else:
                heard = True
                silence.expect(limits.between_events)
            if event is not None:
                if tell.first is None:  # a ping is heard, and is no delta of an answer
                    tell.first = silence.last - began
                if plain and type(event) is not ToolCalled:
                    put(event)
                else:
                    tell(event)
            if assembly.unannounced:
                tell.late(assembly)
            if interruption.requested or silence.fired:  # also where it goes on all the same
                return False
            left -= 1
            if left < 0:
                raise StreamTooLong(limits.max_events, "events")
            if assembly.size > limits.max_bytes:
                raise StreamTooLong(limits.max_bytes, "bytes")
            if assembly.finish is not None:
                silence.expect(limits.closing)
                return await _drain(stream, left)
            if sink.full:
                silence.waits_for_reader = True
                await sink.room()
                silence.waits_for_reader = False
                silence.last = clock()
            elif not left % BREATH:
                await anyio.lowlevel.checkpoint()
        return True

    def _explain(self, error: Exception, assembly: Assembly) -> None:
        """Raise what really ended the stream: a stop of ours may surface as the model's error."""
        if assembly.finish is not None:
            return  # the answer is complete: how the connection ended no longer matters
        if self._interruption.requested:
            raise Interrupted from None
        if self._silence.fired:
            raise StreamSilent(self._silence.patience) from None
        raise error


class _Teller:
    """Says what a stream brings to whom it concerns."""

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
        """Everything is shown as it is."""

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
        """Calls whose end the provider did not say."""
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
    """Let a stream that was left half way go of its connection, bounded."""
    with anyio.move_on_after(seconds, shield=True):
        try:
            await close(stream)
        except Exception:
            return  # it is being thrown away: how it complains about that is of no use to anybody
