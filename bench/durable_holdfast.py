"""Measures durable steps of Holdfast: a worker on a real database, until all chats are idle."""

from __future__ import annotations

import asyncio
import os

from bench.durable_work import Bench, Taken, opened, show, sizes
from holdfast.kernel.ports import Ports


async def main() -> None:
    ports = Ports()
    async with opened(os.environ["BENCH_TARGET"], ports) as db:
        bench = Bench(db, ports)
        async with bench.worker.running():
            await bench.drive(1, 20)
            for chats, steps in sizes():
                taken = Taken()
                await bench.drive(chats, steps)
                show(who="holdfast", chats=chats, **taken.per(chats * steps))


if __name__ == "__main__":
    asyncio.run(main())
