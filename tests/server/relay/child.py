"""A replica as a process of its own: says where it is, and serves until it is told to stop.

python -m tests.server.relay.child postgresql://…
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from typing import Final

from holdfast.kernel.model import Delta, Finished, Request, TextDelta
from holdfast.server.relay.asking import AskOptions
from holdfast.worker.options import WorkerOptions
from tests.server.relay.cluster import replica

WORDS: Final = 60
PACE: Final = 0.02
ANSWER: Final = "".join(f"word {number} " for number in range(WORDS))


class Slow:
    """A model that always says the same, and takes a second for it."""

    name, window = "slow:model", None

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        for number in range(WORDS):
            await asyncio.sleep(PACE)
            yield TextDelta(f"word {number} ")
        yield Finished()


async def main(url: str) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    worker = WorkerOptions(heartbeat=0.3, lease=1.0, poll=0.5, grace=10.0)
    asking = AskOptions(first=0.02, longest=0.2)
    async with replica(url, Slow(), drives=worker, asking=asking) as made:
        print(made.api.url, made.host.feed.worker, flush=True)
        await stop.wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
