"""A lane: jobs in the order in which they come, run in threads beside the event loop or on it."""

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

from holdfast.store.outcome import outcome

J = TypeVar("J")
J_in = TypeVar("J_in", contravariant=True)

LOG: Final = logging.getLogger("holdfast")

AFTER: Final = 0.001
"""Seconds that a job waits for its thread before the loop stands back, and again in between."""
AT_MOST: Final = 0.0005
"""The most seconds that the loop stands back at a time."""
QUICK: Final = 0.005
"""Seconds that the loop may stand still for the disk."""
HABIT: Final = 3
"""A disk is slow when it took longer so many times one after the other."""
TURN: Final = 16
"""Short reads that the loop makes in one turn: those who begin together go on together, and then
share their commits."""
SHARE: Final = 50
"""So many times as long as it took a slow disk, the loop leaves that to the thread."""


class Runner(Protocol[J]):
    """What does the jobs of a lane. It must not raise: what became of a job is the job's."""

    @property
    def behind(self) -> bool:
        """Whether it is time to `catch_up`."""
        ...

    def run(self, jobs: list[J]) -> None: ...

    def catch_up(self) -> None:
        """Do what takes longer, and what nobody waits for."""
        ...

    def close(self) -> None: ...


Deliver: TypeAlias = Callable[[Sequence[J]], None]
"""Called on the event loop with jobs that have been run."""


class Lane(Protocol[J_in]):
    def submit(self, job: J_in, *, short: bool = False) -> None:
        """`short`: it takes less time than handing it to a thread does, but for the disk."""
        ...

    async def stop(self) -> None:
        """Run what was submitted, then close the runners. Nothing may be submitted after it."""
        ...


class Inline(Generic[J]):
    """A lane on the event loop itself: always in the same order, and nothing runs beside it."""

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


class Handover:
    """Lends the interpreter to threads that the loop waits for.

    A loop that is busy in short turns takes the interpreter back before a waiting thread has woken
    up, and can keep it from a thread for seconds. So while jobs are pending the loop itself blocks
    now and then, until a thread has finished something, and not for long.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, collect: Callable[[], None]) -> None:
        """`collect` is called on the loop when a thread may have finished something."""
        self._loop = loop
        self._collect = collect
        self._pending = 0
        self._wanted = False
        """Whether anybody waits for any of it."""
        self._timer: asyncio.TimerHandle | None = None
        self._begun = threading.Lock()
        """Free when a thread has begun what the loop wants begun."""
        self._begun.acquire()
        self._finished = threading.Lock()
        """Free when a thread has finished something since the loop last looked."""
        self._finished.acquire()

    @property
    def pending(self) -> int:
        """Jobs that were begun and whose outcome the loop does not have."""
        return self._pending

    def begin(self) -> None:
        self._pending += 1
        self.hurry()

    def hurry(self) -> None:
        """Somebody waits for what is pending."""
        self._wanted = True
        if self._timer is None:
            self._timer = self._loop.call_later(AFTER, self._lend)

    def end(self, count: int) -> None:
        self._pending -= count

    def begin_now(self, put: Callable[[], None]) -> None:
        """Hand over what nobody waits for yet, and let a thread that has nothing else to do begin
        with it before the loop goes on: what needs no interpreter then runs beside the loop."""
        idle = not self._pending
        self._wanted = not idle
        self._pending += 1
        self._begun.acquire(blocking=False)
        put()
        if idle:
            self._begun.acquire(timeout=AT_MOST)

    def begun(self) -> None:
        """Called by a thread."""
        _free(self._begun)

    def finished(self) -> None:
        """Called by a thread."""
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
        with suppress(RuntimeError):  # another thread was quicker
            lock.release()


class Signal(Enum):
    """What a thread is told between jobs."""

    CATCH_UP = "catch up"
    STOP = "stop"


class Threads(Generic[J]):
    """A lane with a thread for each of its runners."""

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
        self._handover = Handover(loop, self._collect)
        self._done: deque[list[J]] = deque()
        self._queue: SimpleQueue[J | Signal] = SimpleQueue()
        self._catching_up = False
        self._stopping = False
        self._ended: asyncio.Future[None] = loop.create_future()
        self._running = len(runners)
        # Daemons: a process that never closes its database must still be able to end.
        self._threads = [
            threading.Thread(target=self._work, args=(runner,), name="holdfast-store", daemon=True)
            for runner in runners
        ]
        for thread in self._threads:
            thread.start()

    @property
    def idle(self) -> bool:
        """Whether every thread waits for a job, and touches nothing until then."""
        return not self._handover.pending

    def submit(self, job: J, *, short: bool = False) -> None:
        self._handover.begin()
        self._queue.put(job)

    def catch_up(self) -> None:
        """Have the only thread catch up, behind what it has to do."""
        # The last jobs of one that stops are told of when it takes nothing any more.
        if not self._catching_up and not self._stopping:
            self._catching_up = True
            self._handover.begin_now(lambda: self._queue.put(Signal.CATCH_UP))

    def hurry(self) -> None:
        """Somebody waits until it is idle."""
        self._handover.hurry()

    async def stop(self) -> None:
        self._stopping = True
        self._handover.begin()
        for _ in self._threads:
            self._queue.put(Signal.STOP)
        try:
            await outcome(self._ended)
        finally:
            self._handover.end(1)
            if self._ended.done():
                for thread in self._threads:
                    thread.join()

    def _work(self, runner: Runner[J]) -> None:
        """The life of a thread."""
        signal: Signal | None = None
        while signal is not Signal.STOP:
            jobs, signal = self._take()
            if jobs:
                runner.run(jobs)
                self._done.append(jobs)
                self._tell(self._collect)
            if signal is Signal.CATCH_UP:
                self._handover.begun()
                runner.catch_up()
                self._tell(self._caught_up)
            del jobs  # what a transaction gave must not live until the next one
        try:
            runner.close()
        except Exception:
            LOG.exception("the database was not closed as it should be")
        self._tell(self._left)

    def _take(self) -> tuple[list[J], Signal | None]:
        """Wait for a job, and take what waits behind it, up to a signal, which then comes too."""
        jobs: list[J] = []
        while not isinstance(job := self._queue.get(), Signal):
            jobs.append(job)
            # A lane with several threads has groups of one: nobody else empties the queue here.
            if len(jobs) == self._group or self._queue.empty():
                return jobs, None
        return jobs, job

    def _tell(self, callback: Callable[[], None]) -> None:
        """Have something done on the loop."""
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(callback)
        self._handover.finished()

    def _collect(self) -> None:
        while self._done:
            jobs = self._done.popleft()
            self._handover.end(len(jobs))
            self._deliver(jobs)

    def _caught_up(self) -> None:
        self._catching_up = False
        self._handover.end(1)
        self._deliver(())

    def _left(self) -> None:
        self._running -= 1
        if not self._running and not self._ended.done():
            self._ended.set_result(None)


def stood_still() -> float:
    """Seconds since some time in which this thread did not compute: it waited for a disk."""
    return time.perf_counter() - time.thread_time()


class Disk:
    """Whether the loop may wait for the disk: as long as that is no habit."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Callable[[], float]) -> None:
        self._loop = loop
        self._clock = clock
        self._slow = 0
        """How often it was slow since it last was not."""
        self._away_until = 0.0

    @property
    def is_quick(self) -> bool:
        return not self._slow or self._loop.time() >= self._away_until

    def run(self, runner: Runner[J], jobs: list[J]) -> None:
        """Run jobs on the loop, and judge by how long that stood still."""
        before = self._clock()
        runner.run(jobs)
        waited = self._clock() - before
        self._slow = min(self._slow + 1, HABIT) if waited > QUICK else 0
        if self._slow == HABIT:
            self._away_until = self._loop.time() + SHARE * waited


class Divided(Generic[J]):
    """A lane whose jobs need no order: the short ones are run on the loop while the disk is quick,
    by a runner of their own, and the others in threads."""

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
        self._near = Inline(loop, deliver, self, TURN)
        self._beside = Threads(loop, deliver, beside, 1)

    def submit(self, job: J, *, short: bool = False) -> None:
        (self._near if short and self._disk.is_quick else self._beside).submit(job)

    async def stop(self) -> None:
        try:
            await self._near.stop()
        finally:
            await self._beside.stop()

    # As the runner of what is near.

    def run(self, jobs: list[J]) -> None:
        self._disk.run(self._runner, jobs)

    def catch_up(self) -> None:
        """It never is behind."""

    def close(self) -> None:
        self._runner.close()


class Nearby(Generic[J]):
    """A lane with one thread, whose short jobs are run on the loop while the disk is quick.

    To wake a thread and to be woken by it can take longer than a commit does. Nothing can keep such
    a job from running either, however busy the loop is.
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
        self._thread = Threads(loop, self._deliver_from_thread, [runner], group)
        self._near: deque[J] = deque()
        """Short jobs, for the first turn of the loop in which the thread has nothing to do."""

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
        """What came before a job that the thread gets is the thread's too: the order is kept."""
        while self._near:
            self._thread.submit(self._near.popleft())

    def _go_on(self) -> None:
        """Something is near: it is run as soon as the thread has nothing to do."""
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
        """Whoever hears of a job has something to do, while the thread catches up."""
        if self._runner.behind:
            self._thread.catch_up()
        self._deliver(jobs)

    def _deliver_from_thread(self, jobs: Sequence[J]) -> None:
        self._tell(jobs)
        if self._near:
            self._go_on()
