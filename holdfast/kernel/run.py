"""The `Run` handle: await it, iterate over its events, steer it, interrupt it, close it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Generic, NoReturn, TypeAlias
from warnings import warn

import anyio

from holdfast.kernel.attribute_hints import FOREIGN_ATTRIBUTES
from holdfast.kernel.channel import Channel
from holdfast.kernel.events import Event
from holdfast.kernel.inbox import Inbox
from holdfast.kernel.loop import Loop
from holdfast.kernel.messages import Message, Prompt, user_message
from holdfast.kernel.result import LimitExceeded, RunFailed, RunOver, RunResult
from holdfast.kernel.type_parameters import OutputT

_PROPERTIES: Final = ("text", "steps", "usage")
OF_THE_RESULT: Final = frozenset({*RunResult.__struct_fields__, *_PROPERTIES}) - {"history"}
AWAIT_IT: Final = (
    "write `result = await agent.run(…)`, or `result = agent.run_sync(…)` in a program without an "
    "event loop"
)

ResultAndCause: TypeAlias = tuple[RunResult[Any], Exception | None]
"""The result of a run, and the exception that ended it."""


class Run(Coroutine[Any, Any, RunResult[OutputT]], Generic[OutputT]):
    """A run of an agent. It starts when it is first awaited, iterated or entered.

    It is a coroutine, too: `asyncio.run`, `asyncio.create_task` and task groups take it. It may be
    awaited any number of times, also at once. Each event is delivered to one reader, once; after an
    `await` without a reader no events are left. A slow reader slows the run, unless the run is
    awaited meanwhile: then events that were not read yet are kept in memory.

    After `async with` or `aclose()`, every task that the run started has ended. A run that is
    dropped (a `break`, a cancelled reader) ends within a few iterations of the event loop.
    """

    __name__ = "agent.run"  # how asyncio shows it as a coroutine

    def __init__(self, loop: Loop, inbox: Inbox, buffer: int) -> None:
        # The task must not refer to this object: its garbage collection is how an abandoned run is
        # noticed.
        self._loop = loop
        self._inbox = inbox
        self._channel = Channel(buffer)
        self._task: asyncio.Task[ResultAndCause] | None = None
        self._readers = 0
        self._awaiting = 0
        self._awaits: dict[asyncio.Task[Any] | None, Coroutine[Any, Any, RunResult[OutputT]]] = {}
        """For each task that was made of this run as a coroutine, the coroutine that it drives."""
        self._used = False
        """Whether a task was made of this run, even if it was cancelled before it began."""
        self._closed = False
        self._cancelled = False

    # --- result and events ---

    def __await__(self) -> Generator[Any, None, RunResult[OutputT]]:
        return self._outcome().__await__()

    def __aiter__(self) -> EventReader:
        self._start()
        self._channel.listen()
        return EventReader(self, self._channel)

    @property
    def history(self) -> tuple[Message, ...]:
        """The messages committed so far."""
        return self._loop.history

    @property
    def ended_result(self) -> RunResult[OutputT] | None:
        """The result, however the run ended; None while it runs."""
        return self._loop.result

    async def _outcome(self) -> RunResult[OutputT]:
        """The result; `RunFailed` when the run ended in an error, `LimitExceeded` at a limit."""
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
        if result.limit is not None:
            raise LimitExceeded(result)
        return result

    def _without_reader(self) -> None:
        """Do not wait for a reader while the run is awaited: it may have left, and be kept."""
        if self._awaiting:
            self._channel.release()
            if not self._readers:
                self._channel.abandon()

    # --- the protocol of a coroutine ---

    def send(self, value: Any) -> Any:
        return self._drive("send", value)

    def throw(self, *error: Any) -> Any:
        return self._drive("throw", *error)

    def close(self) -> None:
        """End the run if it has not ended, without waiting for it; `aclose` waits."""
        self._closed = True
        if self._task is None:
            self._channel.close()
        elif not self._task.done():
            self._task.get_loop().call_soon_threadsafe(_drop, self._task, self._channel)

    def _drive(self, method: str, *arguments: Any) -> Any:
        """Continue the coroutine of the current task, which is new for a new task."""
        self._used = True
        task = _current_task()
        waiting = self._awaits.get(task)
        if waiting is None:
            waiting = self._awaits[task] = self._outcome()
        try:
            return getattr(waiting, method)(*arguments)
        except BaseException:  # it has ended; a result is a StopIteration
            self._awaits.pop(task, None)
            raise

    # --- a run that was not awaited ---

    def __repr__(self) -> str:
        state = "not started: await it" if self._task is None else "running"
        if self._closed or (self._task is not None and self._task.done()):
            state = "ended"
        return f"<Run, {state}>"

    if not TYPE_CHECKING:  # a type checker reports these by itself

        def __getattr__(self, name: str) -> NoReturn:
            if name in OF_THE_RESULT:
                raise AttributeError(f"a run has no {name}, but its result has: {AWAIT_IT}")
            if remedy := FOREIGN_ATTRIBUTES["Run"].get(name):
                raise AttributeError(f"Run has no attribute {name!r}: use {remedy}")
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self
            )

        def __iter__(self) -> NoReturn:
            raise TypeError(
                "a run is not iterated with `for`: write `async for event in agent.run(…)`, "
                "or `for event in agent.stream_sync(…)` in a program without an event loop"
            )

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

    async def __aenter__(self) -> Run[OutputT]:
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
        if task is None and not self._closed and not self._used:
            # As for a coroutine that is never awaited: the caller may believe that it ran.
            warn(
                f"a run was never awaited, iterated or entered: {AWAIT_IT}",
                RuntimeWarning,
                stacklevel=2,
            )
        if task is None or task.done() or task.get_loop().is_closed():
            return
        # The garbage collector may be at work in any thread.
        task.get_loop().call_soon_threadsafe(_drop, task, self._channel)


class EventReader:
    """Iterates over the events of a run, and keeps the run alive meanwhile."""

    def __init__(self, run: Run[Any], channel: Channel) -> None:
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

    async def batch(self) -> list[Event]:
        """The next events, at least one; empty after the last."""
        event = self._channel.take() or await self._channel.get()
        events = []
        while event is not None:
            events.append(event)
            event = self._channel.take()
        return events

    def __del__(self) -> None:
        self._run._readers -= 1
        self._run._without_reader()


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # driven by hand, without an event loop
        return None


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
