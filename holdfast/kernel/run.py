"""A run as its caller holds it: awaited, iterated, steered, interrupted, closed."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from types import TracebackType
from typing import Any

from holdfast.kernel.channel import Channel, Nowhere, Sink
from holdfast.kernel.errors import HoldfastError
from holdfast.kernel.events import Event
from holdfast.kernel.loop import Inbox, Loop, RunFailed, RunResult
from holdfast.kernel.messages import Message, Prompt, user_message


class RunOver(HoldfastError):
    """The run has ended and takes nothing any more. Start another with its history."""

    def __init__(self) -> None:
        super().__init__(
            "the run has ended: start another with agent.run(…, history=result.history)"
        )


class Run:
    """Begins when it is first awaited, iterated or entered.

    With `async with`, or after `aclose()`, every task that the run started has ended at the next
    line. A run that is simply dropped (a `break`, a cancelled reader) ends within a few turns of
    the event loop.
    """

    def __init__(self, loop: Loop, inbox: Inbox, buffer: int) -> None:
        # The task must not refer to this object: that it is dropped is how an abandoned run is
        # noticed.
        self._loop = loop
        self._inbox = inbox
        self._buffer = buffer
        self._task: asyncio.Task[RunResult] | None = None
        self._channel: Channel | None = None
        self._readers = 0
        self._closed = False

    # --- what it gives ---

    def __await__(self) -> Generator[Any, None, RunResult]:
        return self._outcome().__await__()

    def __aiter__(self) -> Reader:
        if self._task is None and not self._closed:
            self._channel = Channel(self._buffer)
            self._start(self._channel)
        return Reader(self, self._channel)

    @property
    def history(self) -> tuple[Message, ...]:
        """The messages committed so far."""
        return self._loop.history

    async def _outcome(self) -> RunResult:
        """The result; `RunFailed` when the run ended in an error."""
        if self._task is None:
            if self._closed:
                raise RunOver
            self._start(Nowhere())
        elif self._channel is not None and not self._readers:
            self._channel.abandon()  # whoever read before left: only the end counts
        assert self._task is not None
        result = await self._task
        if result.failure is not None:
            raise RunFailed(result)
        return result

    # --- what it takes ---

    def steer(self, prompt: Prompt) -> None:
        """Deliver a message at the next step boundary, without stopping the model."""
        self._inbox_open().steer(user_message(prompt))

    def follow_up(self, prompt: Prompt) -> None:
        """Deliver a message when the run would otherwise finish."""
        self._inbox_open().follow_ups.append(user_message(prompt))

    def interrupt(self) -> None:
        """Stop now and keep what was produced. Does nothing once the run has ended."""
        if self._channel is not None:
            self._channel.release()  # nobody may hold up a run that was told to stop
        self._inbox.interruption.request()

    def _inbox_open(self) -> Inbox:
        if self._inbox.closed or self._closed:
            raise RunOver
        return self._inbox

    # --- beginning and end ---

    def _start(self, sink: Sink) -> None:
        self._task = asyncio.get_running_loop().create_task(
            _drive(self._loop, sink), name="holdfast run"
        )

    async def aclose(self) -> None:
        """End the run, if it has not ended, and wait until nothing of it is left."""
        self._closed = True
        if self._channel is not None:
            self._channel.abandon()
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task])

    async def __aenter__(self) -> Run:
        self.__aiter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    def __del__(self) -> None:
        task = getattr(self, "_task", None)
        if task is None or task.done() or task.get_loop().is_closed():
            return
        if self._channel is not None:
            self._channel.abandon()
        task.cancel()


class Reader:
    """Iterates over the events of a run, and keeps the run alive meanwhile."""

    def __init__(self, run: Run, channel: Channel | None) -> None:
        self._run = run
        self._channel = channel
        run._readers += 1

    def __aiter__(self) -> Reader:
        return self

    async def __anext__(self) -> Event:
        channel = self._channel
        if channel is None:
            raise StopAsyncIteration
        event = channel.take()
        if event is None:
            event = await channel.get()
            if event is None:
                raise StopAsyncIteration
        return event

    def __del__(self) -> None:
        self._run._readers -= 1


async def _drive(loop: Loop, sink: Sink) -> RunResult:
    try:
        return await loop.run(sink)
    finally:
        if isinstance(sink, Channel):
            sink.close()
