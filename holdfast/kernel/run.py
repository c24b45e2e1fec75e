"""A run as its caller holds it: awaited, iterated, steered, interrupted, closed."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from functools import partial
from types import TracebackType
from typing import Any
from warnings import warn

import anyio

from holdfast.kernel.channel import Channel
from holdfast.kernel.events import Event
from holdfast.kernel.inbox import Inbox
from holdfast.kernel.loop import Loop
from holdfast.kernel.messages import Message, Prompt, user_message
from holdfast.kernel.outcome import RunFailed, RunOver, RunResult


class Run:
    """Begins when it is first awaited, iterated or entered; until then nothing happens.

    It is awaitable, not a coroutine: `asyncio.run` and `asyncio.create_task` want an `async`
    function around it. It may be awaited any number of times. Each of its events is given to one
    reader, once; after an `await` without a reader there are none left to read. A reader that is
    kept and not read from holds the run up, also for whoever awaits it.

    With `async with`, or after `aclose()`, every task that the run started has ended at the next
    line. A run that is simply dropped (a `break`, a cancelled reader) ends within a few turns of
    the event loop.
    """

    def __init__(self, loop: Loop, inbox: Inbox, buffer: int) -> None:
        # The task must not refer to this object: that it is dropped is how an abandoned run is
        # noticed.
        self._loop = loop
        self._inbox = inbox
        self._channel = Channel(buffer)
        self._task: asyncio.Task[RunResult] | None = None
        self._readers = 0
        self._awaiting = 0
        self._closed = False
        self._cancelled = False

    # --- what it gives ---

    def __await__(self) -> Generator[Any, None, RunResult]:
        return self._outcome().__await__()

    def __aiter__(self) -> Reader:
        self._start()
        self._channel.listen()
        return Reader(self, self._channel)

    @property
    def history(self) -> tuple[Message, ...]:
        """The messages committed so far."""
        return self._loop.history

    async def _outcome(self) -> RunResult:
        """The result; `RunFailed` when the run ended in an error."""
        task = self._start()
        if task is None:
            raise RunOver
        self._awaiting += 1
        try:
            self._without_reader()
            if not task.done():
                await asyncio.wait([task])  # not the task itself: its cancellation is not ours
        except asyncio.CancelledError:
            await self._stop()
            raise
        finally:
            self._awaiting -= 1
        result = self._loop.result if task.cancelled() else task.result()
        assert result is not None  # _ended
        if result.failure is not None:
            raise RunFailed(result) from self._loop.cause
        return result

    def _without_reader(self) -> None:
        """Keep nothing to be read when nobody reads and somebody waits for the end."""
        if self._awaiting and not self._readers:
            self._channel.abandon()

    # --- what it takes ---

    def steer(self, prompt: Prompt) -> None:
        """Deliver a message at the next step boundary, without stopping the model."""
        self._inbox_open().steer(user_message(prompt))

    def follow_up(self, prompt: Prompt) -> None:
        """Deliver a message when the run would otherwise finish."""
        self._inbox_open().follow_ups.append(user_message(prompt))

    def interrupt(self) -> None:
        """Stop now and keep what was produced. Does nothing once the run has ended."""
        self._channel.release()  # nobody may hold up a run that was told to stop
        self._inbox.interruption.request()

    def _inbox_open(self) -> Inbox:
        if self._inbox.closed or self._closed:
            raise RunOver
        return self._inbox

    # --- beginning and end ---

    def _start(self) -> asyncio.Task[RunResult] | None:
        """The task of the run, begun now if it has not been; None when it never will be."""
        if self._task is None and not self._closed:
            self._task = asyncio.get_running_loop().create_task(
                self._loop.run(self._channel), name="holdfast run"
            )
            self._task.add_done_callback(partial(_ended, self._loop, self._channel))
        return self._task

    async def _stop(self) -> None:
        if self._task is not None and not self._task.done():
            # For a model that keeps the cancellation to itself and goes on talking.
            self._inbox.interruption.requested = True
            if not self._cancelled:  # twice would mean: and do not wait for the tools
                self._cancelled = True
                self._task.cancel()
            with anyio.CancelScope(shield=True):  # bounded: a tool has a grace, a stream too
                await asyncio.wait([self._task])

    async def aclose(self) -> None:
        """End the run, if it has not ended, and wait until nothing of it is left."""
        self._closed = True
        self._channel.release()
        if self._task is None:
            self._channel.close()
        await self._stop()

    async def __aenter__(self) -> Run:
        self._start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    def __del__(self) -> None:
        task = self._task
        if task is None and not self._closed:
            # As for a coroutine that is never awaited: somebody thinks that it ran.
            warn("a run was never awaited, iterated or entered", RuntimeWarning, stacklevel=2)
        if task is None or task.done() or task.get_loop().is_closed():
            return
        # The garbage collector may be at work in any thread.
        task.get_loop().call_soon_threadsafe(_drop, task, self._channel)


class Reader:
    """Iterates over the events of a run, and keeps the run alive meanwhile."""

    def __init__(self, run: Run, channel: Channel) -> None:
        self._run = run
        self._channel = channel
        run._readers += 1

    def __aiter__(self) -> Reader:
        return self

    async def __anext__(self) -> Event:
        event = self._channel.take() or await self._channel.get()
        if event is None:
            raise StopAsyncIteration
        return event

    def __del__(self) -> None:
        self._run._readers -= 1
        self._run._without_reader()


def _ended(loop: Loop, channel: Channel, task: asyncio.Task[RunResult]) -> None:
    """Not in a `finally` of the task: one that is cancelled before its first line has none."""
    if loop.result is None and task.cancelled():
        loop.never_began(channel)
    channel.close()


def _drop(task: asyncio.Task[RunResult], channel: Channel) -> None:
    channel.abandon()
    task.cancel()
