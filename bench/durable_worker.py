"""A worker process whose tool takes BENCH_PAUSE seconds. SIGTERM ends it."""

from __future__ import annotations

import asyncio
import os
import signal

from bench.durable_work import Bench, opened
from holdfast.kernel.ports import Ports


async def main() -> None:
    ports = Ports()
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with opened(os.environ["BENCH_TARGET"], ports) as db:
        bench = Bench(db, ports, pause=float(os.environ["BENCH_PAUSE"]))
        bench.expect(1, 1_000_000)
        async with bench.worker.running():
            print("ready", flush=True)
            await stop.wait()


if __name__ == "__main__":
    asyncio.run(main())
