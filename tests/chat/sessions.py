"""Two sessions at once, in an order that the test decides. On PostgreSQL only."""

from __future__ import annotations

from typing import Final

import anyio

from holdfast.store.database import Database, Tx

BLOCKED: Final = """
    SELECT count(*) FROM pg_stat_activity
     WHERE datname = current_database() AND wait_event_type = 'Lock'
    """


async def until_blocked(db: Database, many: int = 1) -> None:
    """Wait until so many sessions wait for a lock that another one holds."""

    async def blocked(tx: Tx) -> int:
        row = await tx.one(BLOCKED)
        return 0 if row is None else int(row[0])

    while await db.read(blocked) < many:
        await anyio.lowlevel.checkpoint()
