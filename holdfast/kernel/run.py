"""The `Run` handle: await it, iterate over its events, steer it, interrupt it, close it."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from functools import partial
from types import TracebackType
from typing import Any, TypeAlias
from warnings import warn

import anyio

from holdfast.kernel.channel import Channel
from holdfast.kernel.events import Event
from holdfast.kernel.inbox import Inbox
from holdfast.kernel.loop import Loop
from holdfast.kernel.messages import Message, Prompt, user_message
from holdfast.kernel.result import RunFailed, RunOver, RunResult

ResultAndCause: TypeAlias = tuple[RunResult, Exception | None]
"""The result of a run, and the exception that ended it."""


class Run:
    """A run of an agent. It starts when it is first awaited, iterated or entered.

    It is awaitable, not a coroutine: `asyncio.run` and `asyncio.create_task` need an `async`
    function around it. It may be awaited any number of times. Each event is delivered to one
    reader, once; after an `await` without a reader no events are left. A reader that is kept and
    not read from blocks the run, and everything that awaits it.

    After `async with` or `aclose()`, every task that the run started has ended. A run that is
    dropped (a `break`, a cancelled reader) ends within a few iterations of the event loop.
    """

    def __init__(self, loop: Loop, inbox: Inbox, buffer: int) -> None:
        # The task must not refer to this object: its garbage collection is how an abandoned run is
        # noticed.
        self._loop = loop
        self._inbox = inbox
        self._channel = Channel(buffer)
        self._task: asyncio.Task[ResultAndCause] | None = None
        self._readers = 0
        self._awaiting = 0
        self._closed = False
        self._cancelled = False

    # --- result and events ---

    def __await__(self) -> Generator[Any, None, RunResult]:
        return self._outcome().__await__()

    def __aiter__(self) -> EventReader:
        self._start()
        self._channel.listen()
        return EventReader(self, self._channel)

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
        result, cause = (self._loop.result, None) if task.cancelled() else task.result()
        assert result is not None  # _ended
        if result.failure is not None:
            try:
                raise RunFailed(result) from cause
            finally:
                del cause  # its traceback refers to this frame
        return result

    def _without_reader(self) -> None:
        """Discard events while the run is awaited and has no reader."""
        if self._awaiting and not self._readers:
            self._channel.abandon()

    # --- input ---

    def steer(self, prompt: Prompt) -> None:
        """Deliver a message at the next step boundary, without stopping the model."""
        self._inbox_open().steer(user_message(prompt))

    def follow_up(self, prompt: Prompt) -> None:
        """Deliver a message when the run would otherwise finish."""
        self._inbox_open().follow_ups.append(user_message(prompt))

    def interrupt(self) -> None:
        """Stop now and keep what was produced. Does nothing once the run has ended."""
        self._channel.release()  # a slow reader must not block an interrupted run
        self._inbox.interruption.request()

    def _inbox_open(self) -> Inbox:
        if self._inbox.closed or self._closed:
            raise RunOver
        return self._inbox

    # --- beginning and end ---

    def _start(self) -> asyncio.Task[ResultAndCause] | None:
        """The task of the run, started if it has not been; None if the run was closed first."""
        if self._task is None and not self._closed:
            self._task = asyncio.get_running_loop().create_task(
                self._loop.run(self._channel), name="holdfast run"
            )
            self._task.add_done_callback(partial(_ended, self._loop, self._channel))
        return self._task

    async def _stop(self) -> None:
        if self._task is not None and not self._task.done():
            # For a model that swallows the cancellation and continues to stream.
            self._inbox.interruption.requested = True
            if not self._cancelled:  # twice would mean: and do not wait for the tools
                self._cancelled = True
                self._task.cancel()
            with anyio.CancelScope(shield=True):  # bounded: a tool has a grace, a stream too
                await asyncio.wait([self._task])

    async def aclose(self) -> None:
        """Cancel the run if it has not ended, and wait until all its tasks have ended."""
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
            # As for a coroutine that is never awaited: the caller may believe that it ran.
            warn("a run was never awaited, iterated or entered", RuntimeWarning, stacklevel=2)
        if task is None or task.done() or task.get_loop().is_closed():
            return
        # The garbage collector may be at work in any thread.
        task.get_loop().call_soon_threadsafe(_drop, task, self._channel)


class EventReader:
    """Iterates over the events of a run, and keeps the run alive meanwhile."""

    def __init__(self, run: Run, channel: Channel) -> None:
        self._run = run
        self._channel = channel
        run._readers += 1

    def __aiter__(self) -> EventReader:
        return self

    async def __anext__(self) -> Event:
        event = self._channel.take() or await self._channel.get()
        if event is None:
            raise StopAsyncIteration
        return event

    def __del__(self) -> None:
        self._run._readers -= 1
        self._run._without_reader()


def _ended(loop: Loop, channel: Channel, task: asyncio.Task[ResultAndCause]) -> None:
    """Close the channel of an ended run.

    Not in a `finally` of the task: one that is cancelled before its first line does not run it.
    """
    if loop.result is None and task.cancelled():
        loop.never_began(channel)
    channel.close()


def _drop(task: asyncio.Task[ResultAndCause], channel: Channel) -> None:
    channel.abandon()
    task.cancel()
