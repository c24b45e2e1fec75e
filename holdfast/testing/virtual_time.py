"""Virtual time: an event loop whose clock jumps to the next timer instead of waiting for it.

A test that sleeps for an hour takes no time, and always observes the same order of events. Real
file descriptors are still polled, so sockets and pipes work. Real threads are not visible to the
loop: see `VirtualLoop.hold_time`.
"""

from __future__ import annotations

import asyncio
import selectors
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

START: Final = 1_767_225_600_000_000
"""Default start of a `Clock`: 2026-01-01 00:00 UTC."""


class Deadlock(BaseException):
    """Nothing can happen any more, and a task is still waiting.

    Not an `Exception`, because a test runner has to treat it like an interrupted test: the loop has
    stopped in the middle, and its tasks must be cancelled before it is used again.
    """

    def __init__(self, reason: str, tasks: tuple[str, ...]) -> None:
        waiting = "".join(f"\n  {task}" for task in tasks) or " no task"
        super().__init__(f"{reason}; still waiting:{waiting}")
        self.reason = reason
        self.tasks = tasks


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop with virtual time, which starts at 0.

    When no task is ready and a timer is set, `time()` jumps to it. When no timer is left either,
    and nothing outside can wake the loop, it raises `Deadlock` instead of hanging.
    """

    io_timeout: float = 5.0
    """Real seconds to wait for a thread or a descriptor when no timer is left."""
    io_grace: float = 0.005
    """Real seconds to wait for open descriptors before the clock jumps past them."""
    max_jumps: int = 1_000_000
    """Maximum number of jumps of the clock; a loop that only runs timers is a `Deadlock` too."""

    def __init__(self) -> None:
        self._clock = self._make_selector()
        super().__init__(self._clock)
        self._clock.own = len(self._clock.get_map())

    def _make_selector(self) -> Selector:
        return Selector(self)

    def time(self) -> float:
        return self._clock.now

    @contextmanager
    def hold_time(self) -> Iterator[None]:
        """Stop virtual time during the block, to await a thread that takes real time."""
        self._clock.held += 1
        try:
            yield
        finally:
            self._clock.held -= 1

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        future = super().run_in_executor(executor, func, *args)
        self._clock.held += 1
        future.add_done_callback(self._let_go)
        return future

    def _let_go(self, _: object) -> None:
        self._clock.held -= 1

    async def shutdown_default_executor(self, *args: Any, **options: Any) -> None:
        with self.hold_time():  # since Python 3.12 it has a timeout, which would expire at once
            await super().shutdown_default_executor(*args, **options)


class Selector(selectors.DefaultSelector):
    """A selector that moves the clock instead of waiting."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self.now = 0.0
        self.own = 0
        """Number of descriptors the loop uses itself."""
        self.held = 0
        self._loop = loop
        self._jumps = 0

    def poll(self) -> list[tuple[selectors.SelectorKey, int]]:
        """Descriptors that are ready now."""
        return super().select(0)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0:
            return self.poll()
        shared = len(self.get_map()) > self.own
        if timeout is None or self.held:
            wakeable = shared or self.held or threading.active_count() > 1
            ready = super().select(self._loop.io_timeout if wakeable else 0)
            if not ready:
                raise self._deadlock("nothing is ready and no timer is set")
            return ready
        ready = super().select(self._loop.io_grace if shared else 0)
        if not ready:
            self._jumps += 1
            if self._jumps > self._loop.max_jumps:
                raise self._deadlock(f"{self._loop.max_jumps} timers went by")
            self.now += timeout
        return ready

    def _deadlock(self, reason: str) -> Deadlock:
        self._jumps = 0  # cleaning up after this needs the loop again
        tasks = sorted(asyncio.all_tasks(self._loop), key=asyncio.Task.get_name)
        return Deadlock(reason, tuple(map(describe_task, tasks)))


def describe_task(task: asyncio.Task[Any]) -> str:
    """Description of a task: its name, and where it waits, from the outermost function inwards."""
    step: Any = task.get_coro()
    frames = []
    while step is not None:
        frame = getattr(step, "cr_frame", None) or getattr(step, "gi_frame", None)
        if frame is not None:
            code = frame.f_code
            frames.append(f"{code.co_qualname} ({Path(code.co_filename).name}:{frame.f_lineno})")
        step = getattr(step, "cr_await", None) or getattr(step, "gi_yieldfrom", None)
    return f"{task.get_name()}: {' > '.join(frames) or task.get_coro()}"


def run_virtual(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on a new `VirtualLoop`: `asyncio.run` for tests."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(coroutine)


class Clock:
    """A wall clock that follows virtual time. Without a virtual loop it does not move."""

    def __init__(self, at: int = START) -> None:
        """`at`: microseconds since 1970, UTC, when the virtual loop's time is 0."""
        self._at = at

    def now(self) -> int:
        """Microseconds since 1970, UTC."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return self._at
        return self._at + round(loop.time() * 1e6) if isinstance(loop, VirtualLoop) else self._at

    def advance(self, seconds: float) -> None:
        """Move the clock forward or back, as when a real clock is set. Timers are not affected."""
        self._at += round(seconds * 1e6)
