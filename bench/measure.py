"""Measures the CPU time of steps and chunks: several runs, the median and the minimum.

A measured program runs in a process of its own and prints one line of JSON per size.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Final, Literal

API = Literal["openai", "anthropic"]
APIS: Final[tuple[API, ...]] = ("openai", "anthropic")


class Steps:
    """Counters: steps wanted, calls requested by the fake model, calls that the tool really ran."""

    def __init__(self) -> None:
        self.wanted = self.asked = self.ran = 0

    def begin(self, wanted: int) -> None:
        self.wanted, self.asked, self.ran = wanted, 0, 0


def measure_steps(who: str, run: Callable[[int], Awaitable[int]]) -> None:
    """Print the CPU time per step in microseconds. `run(n)` returns how many tool calls ran."""
    sizes = [int(size) for size in os.environ.get("BENCH_SIZES", "50,200,800").split(",")]
    repeats = int(os.environ.get("BENCH_REPEATS", "5"))

    async def main() -> None:
        assert await run(20) == 20  # warm up
        for size in sizes:
            taken = []
            for _ in range(repeats):
                gc.collect()
                began = time.process_time()
                ran = await run(size)
                taken.append((time.process_time() - began) / size * 1e6)
                assert ran == size, f"{who} ran {ran} tool calls instead of {size}"
            row = {
                "who": who,
                "size": size,
                "median": statistics.median(taken),
                "least": min(taken),
            }
            print(json.dumps(row), flush=True)

    asyncio.run(main())


def measure_chunks(who: str, stream: Callable[[str, API], Awaitable[list[str]]]) -> None:
    """Print the CPU time per streamed chunk in microseconds. `stream` returns the texts it read."""
    base_url = os.environ["BENCH_URL"]
    chunks = int(os.environ.get("BENCH_CHUNKS", "4000"))
    repeats = int(os.environ.get("BENCH_REPEATS", "5"))
    wanted = [f" t{number:04}" for number in range(chunks)]

    async def main() -> None:
        for api in APIS:
            taken = []
            for repeat in range(repeats + 1):
                gc.collect()
                began = time.process_time()
                texts = await stream(base_url, api)
                if repeat:  # the first run warms up
                    taken.append((time.process_time() - began) / chunks * 1e6)
                assert [text for text in texts if text] == wanted, f"{who} lost or changed text"
            row = {"who": who, "api": api, "median": statistics.median(taken), "least": min(taken)}
            print(json.dumps(row), flush=True)

    asyncio.run(main())
