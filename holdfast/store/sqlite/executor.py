"""Executors: run jobs in order of submission, in threads or on the event loop."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum
from queue import SimpleQueue
from typing import Final, Generic, Protocol, TypeAlias, TypeVar

from holdfast.store.completion import outcome

J = TypeVar("J")
J_in = TypeVar("J_in", contravariant=True)

LOG: Final = logging.getLogger("holdfast")

AFTER: Final = 0.001
"""How long a job may wait before the loop yields the GIL, and the interval between yields, in
seconds."""
AT_MOST: Final = 0.0005
"""Maximum seconds for which the loop yields the GIL at a time."""
QUICK: Final = 0.005
"""Seconds that the loop may block on the disk."""
HABIT: Final = 3
"""Number of consecutive slow jobs after which a disk counts as slow."""
TURN: Final = 16
"""Short reads that the loop runs per iteration. Callers that start together continue together, and
then share their commits."""
SHARE: Final = 50
"""After a slow job the loop leaves jobs to the thread for so many times its duration."""


class Runner(Protocol[J]):
    """Runs the jobs of an executor. It must not raise: errors are recorded in the job."""

    @property
    def behind(self) -> bool:
        """Whether it is time to `catch_up`."""
        ...

    def run(self, jobs: list[J]) -> None: ...

    def catch_up(self) -> None:
        """Do long work that no job waits for."""
        ...

    def close(self) -> None: ...


Deliver: TypeAlias = Callable[[Sequence[J]], None]
"""Called on the event loop with jobs that have been run."""


class Executor(Protocol[J_in]):
    """Runs submitted jobs and delivers their outcomes on the event loop."""

    def submit(self, job: J_in, *, short: bool = False) -> None:
        """Submit a job. `short`: apart from the disk, it takes less time than handing it to a
        thread."""
        ...

    async def stop(self) -> None:
        """Run what was submitted, then close the runners. Nothing may be submitted afterwards."""
        ...


class InlineExecutor(Generic[J]):
    """An executor on the event loop itself: deterministic order, nothing runs in parallel."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, deliver: Deliver[J], runner: Runner[J], group: int
    ) -> None:
        self._loop = loop
        self._deliver = deliver
        self._runner = runner
        self._group = group
        self._waiting: deque[J] = deque()

    def submit(self, job: J, *, short: bool = False) -> None:
        self._waiting.append(job)
        if len(self._waiting) == 1:
            self._loop.call_soon(self._turn)

    async def stop(self) -> None:
        while self._waiting:
            self._turn()
        self._runner.close()

    def _turn(self) -> None:
        jobs = [self._waiting.popleft() for _ in range(min(self._group, len(self._waiting)))]
        if self._waiting:
            self._loop.call_soon(self._turn)
        if jobs:
            self._runner.run(jobs)
            self._deliver(jobs)
        if self._runner.behind:
            self._runner.catch_up()


class GilYield:
    """Yields the GIL to threads that the event loop waits for.

    A loop that is busy in short iterations takes the GIL back before a waiting thread has woken up,
    and can starve the thread for seconds. So while jobs are pending the loop itself blocks now and
    then, briefly, until a thread has finished something.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, collect: Callable[[], None]) -> None:
        """`collect` is called on the loop when a thread may have finished something."""
        self._loop = loop
        self._collect = collect
        self._pending = 0
        self._wanted = False
        """Whether a caller waits for any pending job."""
        self._timer: asyncio.TimerHandle | None = None
        self._begun = threading.Lock()
        """Released when a thread has begun the job that the loop wants begun."""
        self._begun.acquire()
        self._finished = threading.Lock()
        """Released when a thread has finished something since the loop last checked."""
        self._finished.acquire()

    @property
    def pending(self) -> int:
        """Number of submitted jobs whose outcome the loop does not have yet."""
        return self._pending

    def begin(self) -> None:
        """Count a submitted job."""
        self._pending += 1
        self.hurry()

    def hurry(self) -> None:
        """Mark pending jobs as waited for."""
        self._wanted = True
        if self._timer is None:
            self._timer = self._loop.call_later(AFTER, self._lend)

    def end(self, count: int) -> None:
        """Count delivered jobs."""
        self._pending -= count

    def begin_now(self, put: Callable[[], None]) -> None:
        """Submit work that no caller waits for yet, and let an idle thread begin it before the loop
        continues: the parts that need no GIL then run in parallel to the loop."""
        idle = not self._pending
        self._wanted = not idle
        self._pending += 1
        self._begun.acquire(blocking=False)
        put()
        if idle:
            self._begun.acquire(timeout=AT_MOST)

    def begun(self) -> None:
        """Signal that a job has begun. Called by a thread."""
        _free(self._begun)

    def finished(self) -> None:
        """Signal that a job has finished. Called by a thread."""
        _free(self._finished)

    def _lend(self) -> None:
        if not self._pending or not self._wanted:
            self._timer = None
            return
        finished = self._finished.acquire(timeout=AT_MOST)
        self._timer = self._loop.call_later(AFTER, self._lend)
        if finished:
            self._collect()


def _free(lock: threading.Lock) -> None:
    if lock.locked():
        with suppress(RuntimeError):  # another thread was faster
            lock.release()


class Signal(Enum):
    """Control messages to a thread between jobs."""

    CATCH_UP = "catch up"
    STOP = "stop"


class ThreadExecutor(Generic[J]):
    """An executor with a thread for each of its runners."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        deliver: Deliver[J],
        runners: Sequence[Runner[J]],
        group: int,
    ) -> None:
        self._loop = loop
        self._deliver = deliver
        self._group = group
        self._gil = GilYield(loop, self._collect)
        self._done: deque[list[J]] = deque()
        self._queue: SimpleQueue[J | Signal] = SimpleQueue()
        self._catching_up = False
        self._stopping = False
        self._ended: asyncio.Future[None] = loop.create_future()
        self._running = len(runners)
        # Daemons: a process that never closes its database must still be able to exit.
        self._threads = [
            threading.Thread(target=self._work, args=(runner,), name="holdfast-store", daemon=True)
            for runner in runners
        ]
        for thread in self._threads:
            thread.start()

    @property
    def idle(self) -> bool:
        """Whether every thread waits for a job, and touches nothing until then."""
        return not self._gil.pending

    def submit(self, job: J, *, short: bool = False) -> None:
        self._gil.begin()
        self._queue.put(job)

    def catch_up(self) -> None:
        """Have the only thread catch up, after the jobs that it has."""
        # While stopping, the last jobs are delivered when the queue accepts nothing any more.
        if not self._catching_up and not self._stopping:
            self._catching_up = True
            self._gil.begin_now(lambda: self._queue.put(Signal.CATCH_UP))

    def hurry(self) -> None:
        """Mark that a caller waits until the executor is idle."""
        self._gil.hurry()

    async def stop(self) -> None:
        self._stopping = True
        self._gil.begin()
        for _ in self._threads:
            self._queue.put(Signal.STOP)
        try:
            await outcome(self._ended)
        finally:
            self._gil.end(1)
            if self._ended.done():
                for thread in self._threads:
                    thread.join()

    def _work(self, runner: Runner[J]) -> None:
        """Run jobs until told to stop. The body of a thread."""
        signal: Signal | None = None
        while signal is not Signal.STOP:
            jobs, signal = self._take()
            if jobs:
                runner.run(jobs)
                self._done.append(jobs)
                self._tell(self._collect)
            if signal is Signal.CATCH_UP:
                self._gil.begun()
                runner.catch_up()
                self._tell(self._caught_up)
            del jobs  # release the result of a transaction before the next one
        try:
            runner.close()
        except Exception:
            LOG.exception("the database was not closed cleanly")
        self._tell(self._left)

    def _take(self) -> tuple[list[J], Signal | None]:
        """Wait for a job; return it with the jobs queued after it, up to and including a signal."""
        jobs: list[J] = []
        while not isinstance(job := self._queue.get(), Signal):
            jobs.append(job)
            # An executor with several threads has groups of one: no other thread empties the queue
            # here.
            if len(jobs) == self._group or self._queue.empty():
                return jobs, None
        return jobs, job

    def _tell(self, callback: Callable[[], None]) -> None:
        """Schedule a callback on the loop."""
        with suppress(RuntimeError):  # the loop is closed: no caller is left
            self._loop.call_soon_threadsafe(callback)
        self._gil.finished()

    def _collect(self) -> None:
        while self._done:
            jobs = self._done.popleft()
            self._gil.end(len(jobs))
            self._deliver(jobs)

    def _caught_up(self) -> None:
        self._catching_up = False
        self._gil.end(1)
        self._deliver(())

    def _left(self) -> None:
        self._running -= 1
        if not self._running and not self._ended.done():
            self._ended.set_result(None)


def stood_still() -> float:
    """Return the seconds since a time in which this thread did not compute but waited for a
    disk."""
    return time.perf_counter() - time.thread_time()


class Disk:
    """Tracks whether the disk is fast enough for the loop to wait for it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Callable[[], float]) -> None:
        self._loop = loop
        self._clock = clock
        self._slow = 0
        """Number of consecutive slow jobs."""
        self._away_until = 0.0

    @property
    def is_quick(self) -> bool:
        """Whether the disk counts as fast."""
        return not self._slow or self._loop.time() >= self._away_until

    def run(self, runner: Runner[J], jobs: list[J]) -> None:
        """Run jobs on the loop, and measure how long that blocked."""
        before = self._clock()
        runner.run(jobs)
        waited = self._clock() - before
        self._slow = min(self._slow + 1, HABIT) if waited > QUICK else 0
        if self._slow == HABIT:
            self._away_until = self._loop.time() + SHARE * waited


class SplitExecutor(Generic[J]):
    """An executor for unordered jobs: short ones run on the loop while the disk is fast, on a
    connection of their own, and the others in threads."""

    behind = False

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        deliver: Deliver[J],
        near: Runner[J],
        beside: Sequence[Runner[J]],
        clock: Callable[[], float] = stood_still,
    ) -> None:
        self._runner = near
        self._disk = Disk(loop, clock)
        self._near = InlineExecutor(loop, deliver, self, TURN)
        self._beside = ThreadExecutor(loop, deliver, beside, 1)

    def submit(self, job: J, *, short: bool = False) -> None:
        (self._near if short and self._disk.is_quick else self._beside).submit(job)

    async def stop(self) -> None:
        try:
            await self._near.stop()
        finally:
            await self._beside.stop()

    # As the runner of the jobs on the loop.

    def run(self, jobs: list[J]) -> None:
        self._disk.run(self._runner, jobs)

    def catch_up(self) -> None:
        """Do nothing: reads leave nothing to catch up with."""

    def close(self) -> None:
        self._runner.close()


class LoopFirstExecutor(Generic[J]):
    """An executor with one thread, whose short jobs run on the loop while the disk is fast.

    Waking a thread and being woken by it can take longer than a commit. A busy loop cannot starve
    such a job either.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        deliver: Deliver[J],
        runner: Runner[J],
        group: int,
        clock: Callable[[], float] = stood_still,
    ) -> None:
        self._loop = loop
        self._deliver = deliver
        self._runner = runner
        self._group = group
        self._disk = Disk(loop, clock)
        self._thread = ThreadExecutor(loop, self._deliver_from_thread, [runner], group)
        self._near: deque[J] = deque()
        """Short jobs, for the first iteration of the loop in which the thread is idle."""

    def submit(self, job: J, *, short: bool = False) -> None:
        if short and self._disk.is_quick:
            self._near.append(job)
            if len(self._near) == 1:
                self._go_on()
        else:
            self._send_away()
            self._thread.submit(job)

    async def stop(self) -> None:
        self._send_away()
        await self._thread.stop()

    def _send_away(self) -> None:
        """Move the waiting jobs to the thread before a job that the thread gets, to keep the
        order."""
        while self._near:
            self._thread.submit(self._near.popleft())

    def _go_on(self) -> None:
        """Run the waiting jobs as soon as the thread is idle."""
        if self._thread.idle:
            self._loop.call_soon(self._turn)
        else:
            self._thread.hurry()

    def _turn(self) -> None:
        if self._near and self._thread.idle:
            jobs = [self._near.popleft() for _ in range(min(self._group, len(self._near)))]
            self._disk.run(self._runner, jobs)
            self._tell(jobs)
        if self._near:
            self._go_on()

    def _tell(self, jobs: Sequence[J]) -> None:
        """Deliver outcomes: callers continue while the thread catches up."""
        if self._runner.behind:
            self._thread.catch_up()
        self._deliver(jobs)

    def _deliver_from_thread(self, jobs: Sequence[J]) -> None:
        self._tell(jobs)
        if self._near:
            self._go_on()
