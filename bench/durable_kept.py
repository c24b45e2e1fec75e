"""What is left of a step in the database, and what was written for it: BENCH_WHO, 800 steps."""

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
"""Of a database: so many chats with so many steps."""

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
    """Closing it has moved the log into the file. Counts what this process ever wrote."""
    written = Path("/proc/self/io").read_text().split("wchar:")[1].split()[0]
    return Path(target).stat().st_size, int(written)


async def looked_at(target: str) -> tuple[int, int]:
    """Bytes of all tables with their indexes, and of everything that was written so far."""
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
        before = await looked_at(target)
        await drive(target, chats, steps)
        after = await looked_at(target)
        kept, written = ((b - a) / (chats * steps) for a, b in zip(before, after, strict=True))
        show(who=os.environ["BENCH_WHO"], steps=steps, kept=kept, written=written)


if __name__ == "__main__":
    asyncio.run(main(by_floor if os.environ["BENCH_WHO"] == "floor" else by_holdfast))
