"""How long a chat stands still when the process that drives it dies, or is told to go.

Real processes: one drives a chat, another one is there or is started, and the first one gets a
signal. Time is taken from the signal to the next commit of a step.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final, TypeAlias, cast

import apsw

from bench.durable_work import Bench, opened, show
from holdfast.kernel.ports import Ports

PAUSE: Final = 0.05
"""Seconds that a step takes."""
BOUND: Final = 60.0


@contextmanager
def worker(target: str) -> Iterator[subprocess.Popen[str]]:
    """A process that drives chats, from when it does so."""
    environment = {**os.environ, "BENCH_TARGET": target, "BENCH_PAUSE": str(PAUSE)}
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.durable_worker"],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "ready\n", "the worker did not start"
        yield process
    finally:
        process.kill()
        process.communicate()


Count: TypeAlias = Callable[[], Awaitable[int]]
"""How many messages the one chat has, asked from outside."""
MESSAGES: Final = "SELECT messages FROM chats"


@asynccontextmanager
async def watched(target: str) -> AsyncIterator[Count]:
    if target.startswith("postgresql:"):
        import asyncpg

        connection = await asyncpg.connect(target)
        try:
            yield lambda: connection.fetchval(MESSAGES)
        finally:
            await connection.close()
        return
    file = apsw.Connection(target, flags=apsw.SQLITE_OPEN_READONLY)

    async def count() -> int:
        return cast(int, file.execute(MESSAGES).fetchall()[0][0])

    try:
        yield count
    finally:
        file.close()


async def reaches(count: Count, wanted: int) -> None:
    async with asyncio.timeout(BOUND):
        while True:
            if await count() >= wanted:
                return
            await asyncio.sleep(0.005)


async def goes_on(count: Count) -> None:
    """Until the chat has been driven for a few steps from now."""
    await reaches(count, await count() + 6)


async def give_a_chat(target: str) -> None:
    ports = Ports()
    async with opened(target, ports) as db:
        await Bench(db, ports).create()


async def another_is_there(target: str, how: signal.Signals) -> float:
    """Two workers over one database, and the one that drives the chat gets a signal."""
    await give_a_chat(target)
    async with watched(target) as count:
        with worker(target) as first:
            await goes_on(count)
            with worker(target):
                await goes_on(count)
                began = time.perf_counter()
                first.send_signal(how)
                # What it still commits by itself does not count, so its end comes first.
                await asyncio.to_thread(first.wait)
                await reaches(count, await count() + 1)
                return time.perf_counter() - began


async def started_again(target: str) -> tuple[float, float]:
    """A lone worker dies, and is started again: since then, and since the new one is ready."""
    await give_a_chat(target)
    async with watched(target) as count:
        with worker(target):
            await goes_on(count)
        before = await count()
        began = time.perf_counter()
        with worker(target):
            ready = time.perf_counter()
            await reaches(count, before + 1)
            end = time.perf_counter()
    return end - began, end - ready


async def main() -> None:
    target = os.environ["BENCH_TARGET"]
    match os.environ["BENCH_HOW"]:
        case "restart":
            taken, ready = await started_again(target)
            show(seconds=taken, ready=ready)
        case "kill":
            show(seconds=await another_is_there(target, signal.SIGKILL))
        case "term":
            show(seconds=await another_is_there(target, signal.SIGTERM))


if __name__ == "__main__":
    asyncio.run(main())
