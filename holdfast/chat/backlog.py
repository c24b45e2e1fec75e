"""The backlog of a database: counts of waiting chats and queued messages, for the metrics."""

from __future__ import annotations

from msgspec import Struct

from holdfast.chat.database_clock import now_of
from holdfast.chat.rows import IS_BUSY
from holdfast.store.database import Tx


class Backlog(Struct, frozen=True):
    """Counts of waiting and driven work in one database."""

    waiting: int
    """Number of runnable chats without a worker."""
    longest: float
    """Age in seconds of the oldest runnable chat without a worker."""
    driven: int
    """Number of chats owned by a worker."""
    asking: int
    """Number of chats that wait for an approval, an answer or a child."""
    queued: int
    """Number of queued messages in all chats."""


async def read_backlog(tx: Tx) -> Backlog:
    """Count the backlog. Reads busy chats only, through their index."""
    now = await now_of(tx)
    rows = await tx.fetch(
        f"""
        SELECT CASE WHEN status = 'requires_action' THEN 'asking'
                    WHEN worker_id IS NULL THEN 'waiting'
                    ELSE 'driven' END AS part,
               COUNT(*), MIN(COALESCE(retry_at, runnable_since))
          FROM chats
         WHERE {IS_BUSY}
           AND (worker_id IS NOT NULL OR retry_at IS NULL OR retry_at <= :at)
         GROUP BY 1
        """,
        {"at": now},
    )
    parts = {part: (count, since) for part, count, since in rows}
    waiting, since = parts.get("waiting", (0, None))
    queued = await tx.one("SELECT COUNT(*) FROM queue")
    assert queued is not None
    return Backlog(
        waiting=waiting,
        longest=0.0 if since is None else max(0.0, (now - since) / 1_000_000),
        driven=parts.get("driven", (0, None))[0],
        asking=parts.get("asking", (0, None))[0],
        queued=queued[0],
    )
