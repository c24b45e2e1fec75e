"""How much there is to do: what all workers of a database have, and what waits for them."""

from __future__ import annotations

from msgspec import Struct

from holdfast.chat.locked import now_of
from holdfast.chat.state import IS_BUSY
from holdfast.store.database import Tx


class Load(Struct, frozen=True):
    waiting: int
    """Chats that want a worker and have none."""
    longest: float
    """Seconds that the first of them has been waiting."""
    driven: int
    """Chats that some worker has."""
    asking: int
    """Chats that wait for somebody outside: an approval, an answer, a child."""
    queued: int
    """Messages that wait for their turn, in all chats."""


async def read_load(tx: Tx) -> Load:
    """Looks through busy chats alone, by their index."""
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
    return Load(
        waiting=waiting,
        longest=0.0 if since is None else max(0.0, (now - since) / 1_000_000),
        driven=parts.get("driven", (0, None))[0],
        asking=parts.get("asking", (0, None))[0],
        queued=queued[0],
    )
