"""Measures the memory per answer while one process streams many answers at once."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import resource
import time
from typing import Final

from bench.measure import API
from bench.wire_holdfast import model
from holdfast import Agent
from holdfast.events import TextDelta

STREAMS: Final = int(os.environ.get("BENCH_STREAMS", "1000"))


def memory() -> float:
    """Memory of this process in kilobytes."""
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * 4.096


class Count:
    """Counts the started answers, and records the memory when the last one has started."""

    def __init__(self) -> None:
        self.begun = 0
        self.peak = 0.0

    def begin(self) -> None:
        self.begun += 1
        if self.begun == STREAMS:
            self.peak = memory()


async def stream(agent: Agent, count: Count) -> str:
    pieces: list[str] = []
    async for event in agent.run("go"):
        if isinstance(event, TextDelta):
            if not pieces:
                count.begin()
            pieces.append(event.text)
    return "".join(pieces)


async def measure(base_url: str, api: API) -> None:
    agent = Agent(model=model(base_url, api))
    count = Count()
    gc.collect()
    before, began = memory(), time.process_time()
    texts = await asyncio.gather(*(stream(agent, count) for _ in range(STREAMS)))
    wanted = "".join(f" t{number:04}" for number in range(40))
    assert texts == [wanted] * STREAMS, "a stream lost or changed text"
    row = {
        "api": api,
        "streams": STREAMS,
        "kilobytes": (count.peak - before) / STREAMS,
        "milliseconds": (time.process_time() - began) / STREAMS * 1e3,
    }
    print(json.dumps(row), flush=True)


if __name__ == "__main__":
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65_536), hard))
    api: API = "anthropic" if os.environ.get("BENCH_API") == "anthropic" else "openai"
    asyncio.run(measure(f"{os.environ['BENCH_URL']}/hold/{STREAMS}", api))
