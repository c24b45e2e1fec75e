"""Measures commits and heartbeats of a worker whose event loop is always busy.

Another task blocks the loop in slices, with one turn of the loop in between. Prints how long
commits take, and how late heartbeats are.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

from bench.durable_work import Bench, opened, show
from holdfast.kernel.ports import Ports
from holdfast.store.database import Bulk, ChangeNotice, Database, Dialect, Transaction, Tx
from holdfast.worker.options import WorkerOptions

T = TypeVar("T")
A = TypeVar("A")

SLICES: Final = (0, 100, 500, 2_000)
"""Microseconds for which the loop is blocked at a time; 0: not at all."""
SECONDS: Final = 3.0
HEARTBEAT: Final = 0.25
OPTIONS: Final = WorkerOptions(heartbeat=HEARTBEAT)


class TimedDatabase:
    """A database that records how long commits take, and when a worker has sent a heartbeat."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._beat_at = 0
        self.commits: list[float] = []
        self.beats: list[float] = []

    @property
    def dialect(self) -> Dialect:
        return self._db.dialect

    @property
    def exclusive(self) -> bool:
        return self._db.exclusive

    def listen(self, hear: Callable[[ChangeNotice], None]) -> Callable[[], None]:
        return self._db.listen(hear)

    def check_writable(self) -> None:
        self._db.check_writable()

    async def read(self, transaction: Transaction[T], *, short: bool = False) -> T:
        return await self._db.read(transaction, short=short)

    async def write(self, transaction: Transaction[T], *, short: bool = False) -> T:
        async def and_heartbeat(tx: Tx) -> tuple[T, int]:
            result = await transaction(tx)
            row = await tx.one("SELECT max(beat_at) FROM workers")
            return result, (row and row[0]) or 0

        result, beat_at = await self._db.write(and_heartbeat, short=short)
        if beat_at > self._beat_at:
            self._beat_at = beat_at
            self.beats.append(time.perf_counter())
        return result

    async def write_together(self, bulk: Bulk[A, T], one: A) -> T:
        began = time.perf_counter()
        result = await self._db.write_together(bulk, one)
        self.commits.append(time.perf_counter() - began)
        return result

    def taken(self) -> dict[str, Any]:
        commits = [taken * 1e3 for taken in self.commits]
        late = [b - a - HEARTBEAT for a, b in zip(self.beats, self.beats[1:], strict=False)]
        return {
            "commits": len(commits),
            "median": statistics.median(commits),
            "p95": statistics.quantiles(commits, n=20)[-1],
            "most": max(commits),
            "late": max(late) * 1e3,
        }


async def hog(microseconds: int) -> None:
    """Block the loop, except for one turn after each slice."""
    while True:
        end = time.perf_counter() + microseconds / 1e6
        while time.perf_counter() < end:
            pass
        await asyncio.sleep(0)


async def main() -> None:
    ports = Ports()
    async with opened(os.environ["BENCH_TARGET"], ports) as db:
        for microseconds in SLICES:
            timed = TimedDatabase(db)
            bench = Bench(timed, ports, OPTIONS)
            async with bench.worker.running():
                await bench.drive(1, 20)  # warm up
                timed.commits.clear()
                busy = asyncio.create_task(hog(microseconds)) if microseconds else None
                bench.expect(1, 1_000_000)
                await bench.create()
                await asyncio.sleep(SECONDS)
                if busy is not None:
                    busy.cancel()
                shown = timed.taken()
                bench.model.steps = 0  # ends the chat
                await bench.rest()
            show(who="holdfast", slice=microseconds, **shown)


if __name__ == "__main__":
    asyncio.run(main())
