"""Tombstones: records of chats that a reader lost, by deletion or un-sharing.

Kept for a week, so that a reconnecting client can be notified.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from holdfast.store.database import Row, Tx

TOMBSTONE_LIFETIME: Final = 7 * 24 * 3600 * 1_000_000
"""Microseconds for which a tombstone is kept."""
_UPSERT: Final = "ON CONFLICT (chat_id, reader) DO UPDATE SET at = excluded.at"


async def note_deleted(tx: Tx, chat_id: str) -> None:
    """Add tombstones for a chat that is about to be deleted: for its owner and its readers."""
    await tx.execute(
        f"""
        INSERT INTO gone (chat_id, reader, at)
        SELECT id, owner, {tx.dialect.now} FROM chats WHERE id = :id
        UNION SELECT chat_id, user_id, {tx.dialect.now} FROM shares
               WHERE chat_id = :id AND user_id IS NOT NULL
        {_UPSERT}
        """,
        {"id": chat_id},
    )


async def note_unshared(tx: Tx, chat_id: str, reader: str) -> None:
    """Add a tombstone for a reader that a chat is no longer shared with."""
    await tx.execute(
        f"""
        INSERT INTO gone (chat_id, reader, at) VALUES (:id, :reader, {tx.dialect.now})
        {_UPSERT}
        """,
        {"id": chat_id, "reader": reader},
    )


async def note_shared(tx: Tx, chat_id: str, reader: str) -> None:
    """Remove the tombstone of a reader that a chat is shared with again."""
    await tx.execute(
        "DELETE FROM gone WHERE chat_id = :id AND reader = :reader",
        {"id": chat_id, "reader": reader},
    )


async def lost_since(tx: Tx, reader: str, since: int, limit: int) -> dict[str, int]:
    """Return the chats that this reader lost, and when. Expired shares need no tombstone."""
    rows = await tx.fetch(
        f"""
        SELECT chat_id, at FROM gone WHERE reader = :reader AND at > :since
        UNION ALL
        SELECT chat_id, expires_at FROM shares
         WHERE user_id = :reader AND expires_at > :since AND expires_at <= {tx.dialect.now}
         ORDER BY 2, 1 LIMIT :limit
        """,
        {"reader": reader, "since": since, "limit": limit},
    )
    return {row[0]: row[1] for row in rows}


async def readers_of_deleted(tx: Tx, chats: Collection[str]) -> Sequence[Row]:
    """Return pairs of a deleted chat and a user who could read it, for these chats."""
    one_of = tx.dialect.one_of("chat_id", "ids")
    return await tx.fetch(
        f"SELECT chat_id, reader FROM gone WHERE {one_of}", {"ids": sorted(chats)}
    )


async def forget_tombstones(tx: Tx) -> None:
    """Delete tombstones that are older than a week."""
    await tx.execute(f"DELETE FROM gone WHERE at < {tx.dialect.now} - {TOMBSTONE_LIFETIME}")
