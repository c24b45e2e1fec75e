"""Measures how long a chat is not driven after its process has died or was told to stop.

It uses real processes: one drives a chat and gets a signal; another one is running, or is started.
The time is from the signal to the next committed step.
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
TIMEOUT: Final = 60.0
"""Seconds after which a wait has failed."""


@contextmanager
def worker(target: str) -> Iterator[subprocess.Popen[str]]:
    """A process that drives chats, once it is ready."""
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
"""Returns how many messages the only chat has, read from another connection."""
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
    async with asyncio.timeout(TIMEOUT):
        while True:
            if await count() >= wanted:
                return
            await asyncio.sleep(0.005)


async def few_steps(count: Count) -> None:
    """Wait until the chat has made a few more steps."""
    await reaches(count, await count() + 6)


async def create_chat(target: str) -> None:
    ports = Ports()
    async with opened(target, ports) as db:
        await Bench(db, ports).create()


async def another_is_there(target: str, how: signal.Signals) -> float:
    """Time until the second of two workers continues the chat of the first, which gets a signal."""
    await create_chat(target)
    async with watched(target) as count:
        with worker(target) as first:
            await few_steps(count)
            with worker(target):
                await few_steps(count)
                began = time.perf_counter()
                first.send_signal(how)
                # Steps that it still commits itself do not count: wait for its end first.
                await asyncio.to_thread(first.wait)
                await reaches(count, await count() + 1)
                return time.perf_counter() - began


async def started_again(target: str) -> tuple[float, float]:
    """Time until a restarted worker continues: since its start, and since it was ready."""
    await create_chat(target)
    async with watched(target) as count:
        with worker(target):
            await few_steps(count)
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
