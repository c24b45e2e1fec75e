"""Runs for programs without an event loop: each gets a loop of its own.

`result_of` uses this thread, unless an event loop already runs here, as in a notebook: two loops
cannot share a thread. `SyncRun` always uses another thread, so that timers and connections of the
run do not wait for the program that reads its events.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from contextvars import copy_context
from types import TracebackType
from typing import Any, Final, Generic, TypeVar
from weakref import finalize

from holdfast.kernel.errors import ConfigError
from holdfast.kernel.events import Event
from holdfast.kernel.messages import Message, Prompt
from holdfast.kernel.result import LimitExceeded, RunFailed, RunOver, RunResult
from holdfast.kernel.run import EventReader, Run
from holdfast.kernel.type_parameters import OutputT

T = TypeVar("T")

JOIN_TIMEOUT: Final = 10.0
"""Seconds that the garbage collector, or the end of the program, waits for a dropped run to end."""


def result_of(run: Run[T]) -> RunResult[T]:
    """Drive a run to its end. `RunFailed` when it ended in an error, `LimitExceeded` at a limit."""
    if not _has_event_loop():
        return asyncio.run(run)
    with _interruptible(), SyncRun(run) as blocking:
        return blocking.result


def value_of(make: Callable[[], Coroutine[Any, Any, T]], *, instead: str) -> T:
    """The value of a coroutine that needs this thread. `instead` is for a program with a loop."""
    if _has_event_loop():
        raise ConfigError(f"an event loop runs in this thread: write `{instead}`")
    return asyncio.run(make())


def _has_event_loop() -> bool:
    """Whether an event loop runs in this thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C interrupt the block: `asyncio.run` would only cancel a task, which waits here."""
    in_main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGINT)
    if not (in_main and callable(before) and _has_event_loop()):
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class SyncRun(Generic[OutputT]):
    """A run that is read without an event loop: iterate over its events, then take its `result`.

    Made by `agent.stream_sync`. The run starts with the first event or with the `with` block, on an
    event loop in a thread of its own. It ends after the block, with `close`, when this object is
    dropped, and when Ctrl-C interrupts a wait for it. A slow reader slows the run and loses no
    event.
    """

    def __init__(self, run: Run[OutputT]) -> None:
        self._run = run
        self._thread: _RunThread | None = None
        self._closed = False
        self._unread: deque[Event] = deque()

    # --- events and result ---

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        if not self._unread and not self._closed:
            self._unread.extend(self._wait(lambda thread: thread.read()))
        if not self._unread:
            self.close()
            raise StopIteration
        return self._unread.popleft()

    @property
    def result(self) -> RunResult[OutputT]:
        """The result; waits for the end of the run. Raises `RunFailed` and `LimitExceeded`."""
        if not self._closed:
            self._wait(lambda thread: thread.end())
            self.close()
        if self._thread is None:
            raise RunOver
        return self._thread.outcome.result()

    @property
    def history(self) -> tuple[Message, ...]:
        """The messages committed so far."""
        return self._run.history

    # --- input ---

    def steer(self, prompt: Prompt) -> None:
        """Deliver a message at the next step boundary, without stopping the model."""
        self._call(self._run.steer, prompt)

    def follow_up(self, prompt: Prompt) -> None:
        """Deliver a message when the run would otherwise finish."""
        self._call(self._run.follow_up, prompt)

    def interrupt(self) -> None:
        """Stop now and keep what was produced. Does nothing once the run has ended."""
        self._call(self._run.interrupt)

    def _call(self, method: Callable[..., None], *arguments: object) -> None:
        """Call a method of the run where it runs, if it does."""
        if self._closed or self._thread is None:
            method(*arguments)
            return

        async def call() -> None:
            method(*arguments)

        self._wait(lambda thread: call())

    # --- beginning and end ---

    def close(self) -> None:
        """End the run if it has not ended, and wait until all its tasks have ended."""
        self._closed = True
        if self._thread is None:
            self._run.close()
        else:
            self._thread.close()

    def __enter__(self) -> SyncRun[OutputT]:
        self._wait(lambda thread: thread.begin())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _wait(self, work: Callable[[_RunThread], Coroutine[Any, Any, T]]) -> T:
        """Wait for a coroutine on the run's event loop, which starts now if it has not."""
        if self._thread is None:
            if self._closed:
                raise RunOver
            self._thread = _RunThread(self._run)
            finalize(self, self._thread.close, JOIN_TIMEOUT)  # also when the program ends
        try:
            return self._thread.wait(work(self._thread))
        except KeyboardInterrupt:
            self.close()
            raise


class _RunThread:
    """The event loop of a run, in a thread. It does not refer to the `SyncRun`, so that the garbage
    collector can notice a dropped one."""

    def __init__(self, run: Run[Any]) -> None:
        self.outcome: Future[RunResult[Any]] = Future()
        """The result of the run, once the thread has ended."""
        self._run = run
        self._reader: EventReader | None = None
        self._loop: asyncio.AbstractEventLoop
        self._closing: asyncio.Event
        self._ready = threading.Event()
        self._thread = threading.Thread(
            target=copy_context().run, args=(self._main,), name="holdfast run", daemon=True
        )
        self._thread.start()
        self._ready.wait()

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        with _interruptible():
            return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def close(self, timeout: float | None = None) -> None:
        """Cancel the run if it has not ended, and wait for the end of the thread."""
        with suppress(RuntimeError):  # the loop has been closed
            self._loop.call_soon_threadsafe(self._closing.set)
        if threading.current_thread() is not self._thread:  # the garbage collector may run there
            self._thread.join(timeout)

    # --- in the thread ---

    async def begin(self) -> None:
        await self._run.__aenter__()

    async def read(self) -> list[Event]:
        """The next events; empty after the last."""
        if self._reader is None:
            self._reader = aiter(self._run)
        return await self._reader.batch()

    async def end(self) -> None:
        with suppress(LimitExceeded, RunFailed):  # raised where the result is taken
            await self._run

    def _main(self) -> None:
        asyncio.run(self._until_closed())

    async def _until_closed(self) -> None:
        self._loop, self._closing = asyncio.get_running_loop(), asyncio.Event()
        self._ready.set()
        await self._closing.wait()
        await self._run.aclose()
        try:
            self.outcome.set_result(await self._run)
        except Exception as error:
            self.outcome.set_exception(error)
