"""Measures the bytes that a step leaves in the database, and the bytes written for it.

BENCH_WHO: floor or holdfast.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, TypeAlias, cast

from bench import durable_floor
from bench.durable_work import Bench, opened, show, sizes
from holdfast.kernel.ports import Ports

Drive: TypeAlias = Callable[[str, int, int], Awaitable[None]]
"""Runs a number of chats with a number of steps in a database."""

TABLES: Final = """
    SELECT coalesce(sum(pg_total_relation_size(oid)), 0) FROM pg_class
     WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
    """


async def by_holdfast(target: str, chats: int, steps: int) -> None:
    ports = Ports()
    async with opened(target, ports) as db:
        if chats:
            bench = Bench(db, ports)
            async with bench.worker.running():
                await bench.drive(chats, steps)


async def by_floor(target: str, chats: int, steps: int) -> None:
    async with durable_floor.opened(target) as floor:
        await floor.drive(floor.ways["floor"], chats, steps)


def in_file(target: str) -> tuple[int, int]:
    """Size of the file (its log was merged when it was closed), and bytes this process wrote."""
    written = Path("/proc/self/io").read_text().split("wchar:")[1].split()[0]
    return Path(target).stat().st_size, int(written)


async def sizes_of(target: str) -> tuple[int, int]:
    """Bytes of all tables with their indexes, and all bytes written so far."""
    if not target.startswith("postgresql:"):
        return in_file(target)
    import asyncpg

    connection = await asyncpg.connect(target)
    try:
        kept = await connection.fetchval(TABLES)
        written = await connection.fetchval("SELECT pg_current_wal_insert_lsn() - '0/0'")
        return int(cast(int, kept)), int(cast(int, written))
    finally:
        await connection.close()


async def main(drive: Drive) -> None:
    target = os.environ["BENCH_TARGET"]
    await drive(target, 0, 0)
    for chats, steps in sizes():
        before = await sizes_of(target)
        await drive(target, chats, steps)
        after = await sizes_of(target)
        kept, written = ((b - a) / (chats * steps) for a, b in zip(before, after, strict=True))
        show(who=os.environ["BENCH_WHO"], steps=steps, kept=kept, written=written)


if __name__ == "__main__":
    asyncio.run(main(by_floor if os.environ["BENCH_WHO"] == "floor" else by_holdfast))
