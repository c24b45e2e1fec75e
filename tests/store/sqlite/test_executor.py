"""An executor keeps the order of its jobs, and runs the short ones where that costs least."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import anyio
import apsw
import pytest

from holdfast.store.database import Tx
from holdfast.store.sqlite import file
from holdfast.store.sqlite.database import open_sqlite
from holdfast.store.sqlite.executors import (
    MAX_LOOP_BLOCK,
    READS_PER_ITERATION,
    SLOW_JOBS_IN_A_ROW,
    THREAD_TIME_FACTOR,
    Executor,
    LoopFirstExecutor,
    SplitExecutor,
)
from holdfast.testing import Clock, VirtualLoop

LOOP = "loop"
THREAD = "thread"
CATCHES_UP = ["catches up"]


class Recorder:
    """Runs jobs, which are names: remembers where and in what company."""

    def __init__(self) -> None:
        self.needs_catch_up = False
        self.disk = 0.0
        """How long the disk has taken so far."""
        self.takes = 0.0
        """How long it takes for the next ones."""
        self.ran: list[tuple[str, Sequence[str]]] = []
        self.delivered: list[str] = []
        self.closed = False
        self.gate = threading.Event()
        self.gate.set()
        self._home = threading.get_ident()

    def run(self, jobs: list[str]) -> None:
        self._record(jobs)
        self.disk += self.takes

    def catch_up(self) -> None:
        self._record(CATCHES_UP)
        self.needs_catch_up = False

    def _record(self, what: Sequence[str]) -> None:
        where = LOOP if threading.get_ident() == self._home else THREAD
        assert where == LOOP or self.gate.wait(10)
        self.ran.append((where, list(what)))

    def close(self) -> None:
        self.closed = True


class Desk:
    """An executor, and the callers of its jobs."""

    def __init__(self, recorder: Recorder, group: int = 64, *, reads: bool = False) -> None:
        self.recorder = recorder
        self._waiting: dict[str, asyncio.Event] = {}
        loop = asyncio.get_running_loop()

        def clock() -> float:
            return recorder.disk

        self.executor: Executor[str] = (
            SplitExecutor(loop, self._deliver, recorder, [recorder], clock)
            if reads
            else LoopFirstExecutor(loop, self._deliver, recorder, group, clock)
        )

    def submit(self, *jobs: str) -> None:
        """Those in lower case are short."""
        for job in jobs:
            self._waiting[job] = asyncio.Event()
            self.executor.submit(job, short=job.islower())

    async def done(self, *jobs: str) -> None:
        for job in jobs:
            await self._waiting[job].wait()

    async def run(self, *jobs: str) -> None:
        self.submit(*jobs)
        await self.done(*jobs)

    def _deliver(self, jobs: Sequence[str]) -> None:
        for job in jobs:
            self.recorder.delivered.append(job)
            self._waiting[job].set()


@asynccontextmanager
async def desk(recorder: Recorder, group: int = 64, *, reads: bool = False) -> AsyncIterator[Desk]:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    opened = Desk(recorder, group, reads=reads)
    try:
        with loop.hold_time():
            yield opened
    finally:
        recorder.gate.set()
        with loop.hold_time():
            await opened.executor.stop()
        assert recorder.closed


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


async def test_short_jobs_of_one_turn_are_one_group_on_the_loop(recorder: Recorder) -> None:
    async with desk(recorder) as at:
        await at.run("a", "b", "c")
        await at.run("d")
    assert recorder.ran == [(LOOP, ["a", "b", "c"]), (LOOP, ["d"])]
    assert recorder.delivered == ["a", "b", "c", "d"]


async def test_a_group_has_its_limit_and_the_rest_comes_in_the_next_turn(
    recorder: Recorder,
) -> None:
    async with desk(recorder, group=2) as at:
        await at.run("a", "b", "c", "d", "e")
    assert recorder.ran == [(LOOP, ["a", "b"]), (LOOP, ["c", "d"]), (LOOP, ["e"])]


async def test_other_jobs_run_in_the_thread(recorder: Recorder) -> None:
    async with desk(recorder) as at:
        await at.run("LONG")
        await at.run("a")
    assert recorder.ran == [(THREAD, ["LONG"]), (LOOP, ["a"])]


async def test_what_came_before_a_job_for_the_thread_goes_with_it(recorder: Recorder) -> None:
    async with desk(recorder) as at:
        await at.run("a", "b", "LONG")
    assert [where for where, _ in recorder.ran] == [THREAD] * len(recorder.ran)
    assert [job for _, jobs in recorder.ran for job in jobs] == ["a", "b", "LONG"]


async def test_a_short_job_waits_until_the_thread_has_finished(recorder: Recorder) -> None:
    recorder.gate.clear()
    async with desk(recorder) as at:
        at.submit("LONG", "a")
        for _ in range(10):
            await asyncio.sleep(0)
        assert recorder.ran == []
        recorder.gate.set()
        await at.done("LONG", "a")
    assert recorder.ran == [(THREAD, ["LONG"]), (LOOP, ["a"])]


async def test_a_turn_that_was_meant_for_another_job_runs_none_beside_the_thread(
    recorder: Recorder,
) -> None:
    recorder.gate.clear()
    async with desk(recorder) as at:
        at.submit("a", "LONG", "b")  # the turn that "a" asked for comes while the thread works
        for _ in range(10):
            await asyncio.sleep(0)
        assert recorder.ran == []
        recorder.gate.set()
        await at.done("a", "LONG", "b")
    assert recorder.delivered == ["a", "LONG", "b"]
    assert recorder.ran[-1] == (LOOP, ["b"])


async def test_short_reads_of_one_turn_are_one_group_with_a_limit(recorder: Recorder) -> None:
    names = [f"a{number}" for number in range(READS_PER_ITERATION + 2)]
    async with desk(recorder, reads=True) as at:
        await at.run(*names)
    assert recorder.ran == [
        (LOOP, names[:READS_PER_ITERATION]),
        (LOOP, names[READS_PER_ITERATION:]),
    ]


EITHER = pytest.mark.parametrize("reads", [False, True], ids=["writes", "reads"])


@EITHER
async def test_a_disk_that_is_slow_once_is_no_slow_disk(recorder: Recorder, reads: bool) -> None:
    async with desk(recorder, reads=reads) as at:
        for number in range(3 * SLOW_JOBS_IN_A_ROW):
            recorder.takes = 2 * MAX_LOOP_BLOCK if number % SLOW_JOBS_IN_A_ROW else 0.0
            await at.run(f"a{number}")
    assert {where for where, _ in recorder.ran} == {LOOP}


@EITHER
async def test_a_slow_disk_is_left_to_the_thread_and_tried_again_later(
    recorder: Recorder, reads: bool
) -> None:
    loop = asyncio.get_running_loop()
    recorder.takes = slow = 2 * MAX_LOOP_BLOCK
    opened = Desk(recorder, reads=reads)
    try:
        for number in range(SLOW_JOBS_IN_A_ROW):
            await opened.run(f"a{number}")
        assert [where for where, _ in recorder.ran] == [LOOP] * SLOW_JOBS_IN_A_ROW
        until = loop.time() + THREAD_TIME_FACTOR * slow
        with loop.hold_time():  # type: ignore[attr-defined]
            await opened.run("b")
        assert recorder.ran[-1] == (THREAD, ["b"])
        await anyio.sleep(until - loop.time())
        await opened.run("c")
        assert recorder.ran[-1] == (LOOP, ["c"])
        with loop.hold_time():  # type: ignore[attr-defined]
            await opened.run("d")  # still slow: one is enough now
        assert recorder.ran[-1] == (THREAD, ["d"])
    finally:
        with loop.hold_time():  # type: ignore[attr-defined]
            await opened.executor.stop()


async def test_a_runner_that_is_behind_catches_up_in_the_thread_and_nobody_waits_for_that(
    recorder: Recorder,
) -> None:
    recorder.gate.clear()
    recorder.needs_catch_up = True
    async with desk(recorder) as at:
        await at.run("a")
        assert recorder.ran == [(LOOP, ["a"])]
        at.submit("b")
        for _ in range(10):
            await asyncio.sleep(0)
        assert recorder.delivered == ["a"]  # nothing is run beside what the thread does
        recorder.gate.set()
        await at.done("b")
    assert recorder.ran == [(LOOP, ["a"]), (THREAD, CATCHES_UP), (LOOP, ["b"])]


async def test_a_thread_that_has_jobs_catches_up_once_between_them(recorder: Recorder) -> None:
    recorder.gate.clear()
    recorder.needs_catch_up = True
    async with desk(recorder, group=1) as at:
        at.submit("A", "B", "C")
        recorder.gate.set()
        await at.done("A", "B", "C")
    assert [job for _, jobs in recorder.ran for job in jobs if [job] != CATCHES_UP] == list("ABC")
    assert recorder.ran.count((THREAD, CATCHES_UP)) == 1
    assert {where for where, _ in recorder.ran} == {THREAD}


async def test_what_waits_when_the_lane_stops_is_run(recorder: Recorder) -> None:
    async with desk(recorder) as at:
        at.submit("a", "b")
    assert [job for _, jobs in recorder.ran for job in jobs] == ["a", "b"]


async def test_a_lane_that_stopped_leaves_the_loop_alone_however_far_behind_it_was(
    recorder: Recorder,
) -> None:
    recorder.gate.clear()
    recorder.needs_catch_up = True
    async with desk(recorder) as at:
        at.submit("LONG")
    await anyio.sleep(1)
    loop = asyncio.get_running_loop()
    assert all(timer.cancelled() for timer in loop._scheduled)  # type: ignore[attr-defined]


# --- SQLite's log ---------------------------------------------------------------------------------


class Noting:
    """Writes something large."""

    async def alone(self, tx: Tx, one: int) -> None:
        await tx.execute("INSERT INTO notes VALUES (:text)", {"text": "x" * 20_000})

    async def together(self, tx: Tx, many: Sequence[int]) -> Sequence[None]:
        raise NotImplementedError


async def test_the_log_is_moved_into_the_file_in_the_thread_and_stays_short(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path_factory.mktemp("log") / "chats.db"
    monkeypatch.setattr(file, "WAL_PAGES", 20)
    where: list[int] = []
    shorten = file.DatabaseFile.shorten_log

    def seen(self: file.DatabaseFile) -> None:
        where.append(threading.get_ident())
        shorten(self)

    monkeypatch.setattr(file.DatabaseFile, "shorten_log", seen)

    async def table(tx: Tx) -> None:
        await tx.execute("CREATE TABLE notes (text text)")

    async with open_sqlite(path, now=Clock().now) as db:
        await db.write(table)
        for number in range(100):
            await db.write_together(Noting(), number)
        assert path.stat().st_size > 100 * 10_000
        assert (path.parent / "chats.db-wal").stat().st_size < 1_000_000
    assert len(where) > 5
    assert threading.get_ident() not in where


async def test_a_log_that_cannot_be_moved_is_warned_of_and_commits_go_on(
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    path = tmp_path_factory.mktemp("log") / "chats.db"
    monkeypatch.setattr(file, "WAL_PAGES", 1)

    def refuse(*_: object, **__: object) -> None:
        raise apsw.IOError("disk I/O error")

    async def count(tx: Tx) -> int:
        row = await tx.one("SELECT count(*) FROM workers")
        assert row is not None
        return int(row[0])

    async def touch(tx: Tx) -> None:
        await tx.execute("UPDATE workers SET id = id")
        await tx.execute("CREATE TABLE IF NOT EXISTS notes (text text)")
        await tx.execute("INSERT INTO notes VALUES ('a')")

    async with open_sqlite(path, now=Clock().now) as db:
        with monkeypatch.context() as patched:
            patched.setattr(file.DatabaseFile, "_checkpoint", refuse)
            for _ in range(3):
                await db.write(touch)
        assert await db.read(count) == 0
    assert "the log was not moved into the file: disk I/O error" in caplog.text
