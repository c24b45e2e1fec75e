"""Executors run jobs in the order of submission, in threads or on the event loop."""

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

from holdfast.store.transaction_outcome import wait_for

J = TypeVar("J")
J_in = TypeVar("J_in", contravariant=True)

LOG: Final = logging.getLogger("holdfast")

GIL_YIELD_INTERVAL: Final = 0.001
"""Seconds that a job may wait before the loop yields the GIL, and between two yields."""
MAX_GIL_YIELD: Final = 0.0005
"""Maximum seconds for which the loop yields the GIL at a time."""
MAX_LOOP_BLOCK: Final = 0.005
"""Seconds that a job may block the loop on the disk before it counts as slow."""
SLOW_JOBS_IN_A_ROW: Final = 3
"""Number of consecutive slow jobs after which a disk counts as slow."""
READS_PER_ITERATION: Final = 16
"""Maximum number of short reads per iteration of the loop. Callers that start together continue
together, and then share their commits."""
THREAD_TIME_FACTOR: Final = 50
"""After slow jobs the thread runs all jobs, for this factor times the duration of the last one."""


class JobRunner(Protocol[J]):
    """Runs the jobs of an executor. It must not raise, but record errors in the jobs."""

    @property
    def needs_catch_up(self) -> bool:
        """Whether `catch_up` has work to do."""
        ...

    def run(self, jobs: list[J]) -> None: ...

    def catch_up(self) -> None:
        """Do long work that no job depends on."""
        ...

    def close(self) -> None: ...


DeliverJobs: TypeAlias = Callable[[Sequence[J]], None]
"""Function that is called on the event loop with jobs that have run."""


class Executor(Protocol[J_in]):
    """Runs submitted jobs and delivers their outcomes on the event loop."""

    def submit(self, job: J_in, *, short: bool = False) -> None:
        """Submit a job. `short`: without the disk, it takes less time than waking a thread."""
        ...

    async def stop(self) -> None:
        """Run the submitted jobs, then close the runners. No job may be submitted afterwards."""
        ...


class InlineExecutor(Generic[J]):
    """An executor on the event loop itself: in a deterministic order, and never in parallel."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        deliver: DeliverJobs[J],
        runner: JobRunner[J],
        group: int,
    ) -> None:
        self._loop = loop
        self._deliver = deliver
        self._runner = runner
        self._group = group
        self._queue: deque[J] = deque()

    def submit(self, job: J, *, short: bool = False) -> None:
        self._queue.append(job)
        if len(self._queue) == 1:
            self._loop.call_soon(self._run_batch)

    async def stop(self) -> None:
        while self._queue:
            self._run_batch()
        self._runner.close()

    def _run_batch(self) -> None:
        jobs = [self._queue.popleft() for _ in range(min(self._group, len(self._queue)))]
        if self._queue:
            self._loop.call_soon(self._run_batch)
        if jobs:
            self._runner.run(jobs)
            self._deliver(jobs)
        if self._runner.needs_catch_up:
            self._runner.catch_up()


class GilYield:
    """Yields the GIL to threads that the event loop waits for.

    A loop that is busy in short iterations takes the GIL back before a waiting thread has woken up,
    and can starve the thread for seconds. So while jobs are pending, the loop blocks at intervals,
    briefly, until a thread has finished a job.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, collect: Callable[[], None]) -> None:
        """`collect` is called on the loop when a thread may have finished a job."""
        self._loop = loop
        self._collect = collect
        self._pending = 0
        self._is_waited_for = False
        """Whether a caller waits for a pending job."""
        self._timer: asyncio.TimerHandle | None = None
        self._job_begun = threading.Lock()
        """Released when a thread has begun the job of `begin_now`."""
        self._job_begun.acquire()
        self._job_finished = threading.Lock()
        """Released when a thread has finished a job since the loop last checked."""
        self._job_finished.acquire()

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
        self._is_waited_for = True
        if self._timer is None:
            self._timer = self._loop.call_later(GIL_YIELD_INTERVAL, self._yield_gil)

    def end(self, count: int) -> None:
        """Count delivered jobs."""
        self._pending -= count

    def begin_now(self, submit: Callable[[], None]) -> None:
        """Submit work that no caller waits for yet, and let an idle thread begin it now.

        The parts of the work that need no GIL then run in parallel to the loop.
        """
        idle = not self._pending
        self._is_waited_for = not idle
        self._pending += 1
        self._job_begun.acquire(blocking=False)
        submit()
        if idle:
            self._job_begun.acquire(timeout=MAX_GIL_YIELD)

    def begun(self) -> None:
        """Signal that a job has begun. Called by a thread."""
        _release(self._job_begun)

    def finished(self) -> None:
        """Signal that a job has finished. Called by a thread."""
        _release(self._job_finished)

    def _yield_gil(self) -> None:
        if not self._pending or not self._is_waited_for:
            self._timer = None
            return
        job_finished = self._job_finished.acquire(timeout=MAX_GIL_YIELD)
        self._timer = self._loop.call_later(GIL_YIELD_INTERVAL, self._yield_gil)
        if job_finished:
            self._collect()


def _release(lock: threading.Lock) -> None:
    if lock.locked():
        with suppress(RuntimeError):  # another thread has released it
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
        deliver: DeliverJobs[J],
        runners: Sequence[JobRunner[J]],
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
        self._all_ended: asyncio.Future[None] = loop.create_future()
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
        """Whether every thread waits for a job, and so does not use its connection."""
        return not self._gil.pending

    def submit(self, job: J, *, short: bool = False) -> None:
        self._gil.begin()
        self._queue.put(job)

    def catch_up(self) -> None:
        """Let the only thread catch up, after its queued jobs."""
        # While stopping, the last jobs are delivered when the thread takes no more signals.
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
            await wait_for(self._all_ended)
        finally:
            self._gil.end(1)
            if self._all_ended.done():
                for thread in self._threads:
                    thread.join()

    def _work(self, runner: JobRunner[J]) -> None:
        """Run jobs until the stop signal. The body of a thread."""
        signal: Signal | None = None
        while signal is not Signal.STOP:
            jobs, signal = self._take()
            if jobs:
                runner.run(jobs)
                self._done.append(jobs)
                self._call_on_loop(self._collect)
            if signal is Signal.CATCH_UP:
                self._gil.begun()
                runner.catch_up()
                self._call_on_loop(self._caught_up)
            del jobs  # release the result of a transaction before the next one
        try:
            runner.close()
        except Exception:
            LOG.exception("the database was not closed cleanly")
        self._call_on_loop(self._thread_ended)

    def _take(self) -> tuple[list[J], Signal | None]:
        """Wait for a job; return it with the jobs queued after it, up to and including a signal."""
        jobs: list[J] = []
        while not isinstance(job := self._queue.get(), Signal):
            jobs.append(job)
            # With several threads a group is one job, so no other thread can empty the queue here.
            if len(jobs) == self._group or self._queue.empty():
                return jobs, None
        return jobs, job

    def _call_on_loop(self, callback: Callable[[], None]) -> None:
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

    def _thread_ended(self) -> None:
        self._running -= 1
        if not self._running and not self._all_ended.done():
            self._all_ended.set_result(None)


def seconds_waited() -> float:
    """Return a clock that advances only while this thread waits, as for a disk."""
    return time.perf_counter() - time.thread_time()


class Disk:
    """Tracks whether the disk is fast enough for the loop to wait for it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Callable[[], float]) -> None:
        self._loop = loop
        self._clock = clock
        self._slow = 0
        """Number of consecutive slow jobs."""
        self._use_thread_until = 0.0

    @property
    def is_fast(self) -> bool:
        """Whether the disk counts as fast."""
        return not self._slow or self._loop.time() >= self._use_thread_until

    def run(self, runner: JobRunner[J], jobs: list[J]) -> None:
        """Run jobs on the loop, and measure how long it was blocked."""
        started_at = self._clock()
        runner.run(jobs)
        seconds = self._clock() - started_at
        self._slow = min(self._slow + 1, SLOW_JOBS_IN_A_ROW) if seconds > MAX_LOOP_BLOCK else 0
        if self._slow == SLOW_JOBS_IN_A_ROW:
            self._use_thread_until = self._loop.time() + THREAD_TIME_FACTOR * seconds


class SplitExecutor(Generic[J]):
    """An executor for reads, which need no order.

    While the disk is fast, short ones run on the loop, on their own connection; others in threads.
    """

    needs_catch_up = False

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        deliver: DeliverJobs[J],
        on_loop: JobRunner[J],
        in_threads: Sequence[JobRunner[J]],
        clock: Callable[[], float] = seconds_waited,
    ) -> None:
        self._runner = on_loop
        self._disk = Disk(loop, clock)
        self._on_loop = InlineExecutor(loop, deliver, self, READS_PER_ITERATION)
        self._in_threads = ThreadExecutor(loop, deliver, in_threads, 1)

    def submit(self, job: J, *, short: bool = False) -> None:
        (self._on_loop if short and self._disk.is_fast else self._in_threads).submit(job)

    async def stop(self) -> None:
        try:
            await self._on_loop.stop()
        finally:
            await self._in_threads.stop()

    # As the runner of the jobs on the loop.

    def run(self, jobs: list[J]) -> None:
        self._disk.run(self._runner, jobs)

    def catch_up(self) -> None:
        """Do nothing: reads leave nothing to catch up with."""

    def close(self) -> None:
        self._runner.close()


class LoopFirstExecutor(Generic[J]):
    """An executor with one thread, whose short jobs run on the loop while the disk is fast.

    Waking a thread, and being woken by it, can take longer than a commit. Nor can a busy loop
    starve a job that runs on the loop.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        deliver: DeliverJobs[J],
        runner: JobRunner[J],
        group: int,
        clock: Callable[[], float] = seconds_waited,
    ) -> None:
        self._loop = loop
        self._deliver = deliver
        self._runner = runner
        self._group = group
        self._disk = Disk(loop, clock)
        self._thread = ThreadExecutor(loop, self._deliver_from_thread, [runner], group)
        self._loop_jobs: deque[J] = deque()
        """Short jobs, which run in the first iteration of the loop with an idle thread."""

    def submit(self, job: J, *, short: bool = False) -> None:
        if short and self._disk.is_fast:
            self._loop_jobs.append(job)
            if len(self._loop_jobs) == 1:
                self._schedule()
        else:
            self._move_to_thread()
            self._thread.submit(job)

    async def stop(self) -> None:
        self._move_to_thread()
        await self._thread.stop()

    def _move_to_thread(self) -> None:
        """Move the jobs of the loop to the thread, to keep the order with a job submitted there."""
        while self._loop_jobs:
            self._thread.submit(self._loop_jobs.popleft())

    def _schedule(self) -> None:
        """Schedule the jobs of the loop for when the thread is idle."""
        if self._thread.idle:
            self._loop.call_soon(self._run_batch)
        else:
            self._thread.hurry()

    def _run_batch(self) -> None:
        if self._loop_jobs and self._thread.idle:
            jobs = [
                self._loop_jobs.popleft() for _ in range(min(self._group, len(self._loop_jobs)))
            ]
            self._disk.run(self._runner, jobs)
            self._deliver_jobs(jobs)
        if self._loop_jobs:
            self._schedule()

    def _deliver_jobs(self, jobs: Sequence[J]) -> None:
        """Deliver outcomes; the thread catches up while callers continue."""
        if self._runner.needs_catch_up:
            self._thread.catch_up()
        self._deliver(jobs)

    def _deliver_from_thread(self, jobs: Sequence[J]) -> None:
        self._deliver_jobs(jobs)
        if self._loop_jobs:
            self._schedule()
