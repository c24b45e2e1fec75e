"""A replica as a process of its own: says where it is, and serves until it is told to stop.

python -m tests.server.relay.child postgresql://… [GATE]

With a gate, its model says half of what it has to say, and the rest once there is such a file.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from holdfast.kernel.model import Delta, Finished, Request, TextDelta
from holdfast.server.relay.replica_subscriber import SubscriberOptions
from holdfast.worker.options import WorkerOptions
from tests.server.relay.cluster import replica

WORDS: Final = 60
HALF: Final = 31
PACE: Final = 0.02
ANSWER: Final = "".join(f"word {number} " for number in range(WORDS))


class Slow:
    """A model that always says the same, and takes a second for it."""

    name, window = "slow:model", None

    def __init__(self, gate: Path | None) -> None:
        self._gate = gate

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        for number in range(WORDS):
            await asyncio.sleep(PACE)
            if number == HALF and self._gate is not None:
                await _opened(self._gate)
            yield TextDelta(f"word {number} ")
        yield Finished()


async def _opened(gate: Path) -> None:
    while not gate.exists():  # noqa: ASYNC110, ASYNC240 - another process opens it
        await asyncio.sleep(PACE)


async def main(url: str, gate: Path | None = None) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    worker = WorkerOptions(heartbeat=0.3, lease=1.0, poll=0.5, grace=10.0)
    asking = SubscriberOptions(first=0.02, longest=0.2)
    async with replica(url, Slow(gate), drives=worker, asking=asking) as made:
        print(made.api.url, made.host.feed.worker, flush=True)
        await stop.wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], *map(Path, sys.argv[2:])))
