"""Read state: how far each reader has read a chat, and whether they pinned it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from msgspec import Struct

from holdfast.chat.rows import ChatRow
from holdfast.store.database import Changed, Tx


class Marks(Struct, frozen=True):
    """The state of a chat for one reader."""

    read: int = 0
    """Number of the last message that the reader has read."""
    unread: bool = False
    """Whether there is an answer after the last message that was read."""
    pinned: bool = False
    needs_me: bool = False
    """Whether the chat, or one below it, waits for an action of its owner."""
    mine: bool = True
    """False when the chat belongs to another user who shares it for reading."""
    owner_name: str | None = None
    """Name of the owner, when that is another user."""


NO_MARKS = Marks()


async def read_marks(tx: Tx, reader: str, chats: Sequence[ChatRow]) -> Mapping[str, Marks]:
    """Read the marks of these chats for one reader."""
    if not chats:
        return {}
    ids = [chat.id for chat in chats]
    rows = await tx.fetch(
        f"""
        SELECT c.id, COALESCE(k.read, 0), COALESCE(k.pinned, 0), c.owner = :reader, u.name,
               EXISTS (SELECT 1 FROM messages m
                        WHERE m.chat_id = c.id AND m.number > COALESCE(k.read, 0)
                          AND m.kind = 'answer' AND m.visibility <> 'model'
                          AND m.superseded_at IS NULL)
          FROM chats c LEFT JOIN marks k ON k.chat_id = c.id AND k.reader = :reader
          LEFT JOIN users u ON u.id = c.owner AND c.owner <> :reader
                           AND EXISTS (SELECT 1 FROM users WHERE id = :reader)
         WHERE {tx.dialect.one_of("c.id", "chats")}
        """,
        {"reader": reader, "chats": ids},
    )
    needing_owner = await _chats_needing_owner(
        tx, {chat.root_id for chat in chats if chat.owner == reader}
    )
    return {
        id: Marks(read, bool(unread), bool(pinned), id in needing_owner, bool(mine), name)
        for id, read, pinned, mine, name, unread in rows
    }


def shared_with(tx: Tx, columns: str = "chat_id") -> str:
    """Return a query for the chats that other users share with `:reader`.

    The chats below them are shared, too, but are not in the result.
    """
    now = tx.dialect.now
    return f"""
        SELECT {columns} FROM shares
         WHERE user_id = :reader AND (expires_at IS NULL OR expires_at > {now})
        """


async def _chats_needing_owner(tx: Tx, roots: Collection[str]) -> set[str]:
    """Return the chats of these families that wait for an action, and the chats above them."""
    if not roots:
        return set()
    rows = await tx.fetch(
        f"""
        SELECT c.id, c.parent_id,
               c.status IN ('running', 'requires_action') AND
               EXISTS (SELECT 1 FROM tool_calls t
                        WHERE t.chat_id = c.id AND (t.state <> 'finished' OR t.result IS NOT NULL)
                          AND t.state = 'waiting' AND t.action <> 'child')
          FROM chats c WHERE {tx.dialect.one_of("c.root_id", "roots")}
        """,
        {"roots": sorted(roots)},
    )
    parents = {id: parent for id, parent, _ in rows}
    chat_ids: set[str] = set()
    for id, _, waits in rows:
        while waits and id is not None and id not in chat_ids:
            chat_ids.add(id)
            id = parents.get(id)
    return chat_ids


async def mark(
    tx: Tx, reader: str, chat: ChatRow, *, read: int | None = None, pinned: bool | None = None
) -> None:
    """Store marks of a reader, and notify the chat's streams."""
    params: dict[str, Any] = {"reader": reader, "chat": chat.id}
    changes: dict[str, Any] = {}
    if read is not None:
        changes["read"] = min(read, chat.messages)
    if pinned is not None:
        changes["pinned"] = int(pinned)
    await tx.execute(
        f"""
        INSERT INTO marks (reader, chat_id, {", ".join(changes)}, updated_at)
        VALUES (:reader, :chat, {", ".join(f":{name}" for name in changes)}, {tx.dialect.now})
        ON CONFLICT (reader, chat_id)
        DO UPDATE SET {", ".join(f"{name} = excluded.{name}" for name in (*changes, "updated_at"))}
        """,
        params | changes,
    )
    tx.notify(Changed(chat.id, chat.snapshot_version))


async def marked_since(tx: Tx, reader: str, since: int) -> frozenset[str]:
    """Return the chats that a reader has read, pinned or unpinned since then."""
    rows = await tx.fetch(
        "SELECT chat_id FROM marks WHERE reader = :reader AND updated_at > :since",
        {"reader": reader, "since": since},
    )
    return frozenset(row[0] for row in rows)
