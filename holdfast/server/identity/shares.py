"""Sharing a chat for reading, with a user or with whoever has a link.

What is shared with a chat are the chats below it too: they are part of what it did.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from holdfast.chat.gone import note_shared, note_unshared
from holdfast.chat.state import check_text
from holdfast.server.identity.credential import hash_of
from holdfast.server.problem import NotFound, TooMany
from holdfast.store.database import Tx

MOST: Final = 200
"""Shares of one chat."""


class Share(Struct, frozen=True):
    id: str
    chat: str
    user: str | None
    """None for a link."""
    name: str | None
    """Of the user."""
    created_at: int
    expires_at: int | None = None


class ShareNotFound(NotFound):
    kind = "share_not_found"


class NewShare(Struct, frozen=True, kw_only=True):
    id: str
    chat: str
    by: str
    user: str | None = None
    secret: str | None = None
    """Of a link. Either this or the user."""
    lifetime: int | None = None
    """Seconds; None for ever."""


async def share(tx: Tx, new: NewShare) -> Share:
    """Shared with the same user again: it is the same share, for as long as is now said."""
    await _refuse_more(tx, new.chat, new.user)
    lifetime = None if new.lifetime is None else new.lifetime * 1_000_000
    expires = "NULL" if lifetime is None else f"{tx.dialect.now} + :lifetime"
    row = await tx.one(
        f"""
        INSERT INTO shares (id, chat_id, user_id, hash, created_by, created_at, expires_at)
        VALUES (:id, :chat, :user, :hash, :by, {tx.dialect.now}, {expires})
        ON CONFLICT (chat_id, user_id) DO UPDATE SET expires_at = excluded.expires_at
        RETURNING id
        """,
        {
            "id": new.id,
            "chat": new.chat,
            "user": new.user,
            "hash": None if new.secret is None else hash_of(new.secret),
            "by": new.by,
            **({} if lifetime is None else {"lifetime": lifetime}),
        },
    )
    assert row is not None
    if new.user is not None:
        await note_shared(tx, new.chat, new.user)
    (made,) = await _shares(tx, "s.id = :id", {"id": row[0]})
    return made


async def _refuse_more(tx: Tx, chat: str, user: str | None) -> None:
    """`user`: one that it may be shared with already, which then makes no more of them."""
    others = "" if user is None else "AND (user_id IS NULL OR user_id <> :user)"
    row = await tx.one(
        f"SELECT count(*) FROM shares WHERE chat_id = :chat {others}",
        {"chat": chat, **({} if user is None else {"user": user})},
    )
    if row is not None and row[0] >= MOST:
        raise TooMany(f"the chat is shared {MOST} times already: revoke some", limit=MOST)


async def list_shares(tx: Tx, chat: str) -> tuple[Share, ...]:
    return await _shares(tx, "s.chat_id = :chat", {"chat": chat})


async def _shares(tx: Tx, condition: str, params: dict[str, Any]) -> tuple[Share, ...]:
    rows = await tx.fetch(
        f"""
        SELECT s.id, s.chat_id, s.user_id, u.name, s.created_at, s.expires_at
          FROM shares s LEFT JOIN users u ON u.id = s.user_id
         WHERE {condition} ORDER BY s.created_at, s.id
        """,
        params,
    )
    return tuple(Share(*row) for row in rows)


async def unshare(tx: Tx, chat: str, id: str) -> Share:
    check_text("share", id)
    params = {"chat": chat, "id": id}
    found = await _shares(tx, "s.chat_id = :chat AND s.id = :id", params)
    if not found:
        raise ShareNotFound(f"there is no share {id!r} of this chat", share=id)
    await tx.execute("DELETE FROM shares WHERE chat_id = :chat AND id = :id", params)
    if found[0].user is not None:
        await note_unshared(tx, chat, found[0].user)
    return found[0]


class Reach(Struct, frozen=True):
    """Who can reach a chat, as far as one caller is concerned."""

    owner: str
    above: frozenset[str]
    """The ids of the chat and of all that it is below."""
    shared: bool
    """One of these is shared with the user."""


async def reach(tx: Tx, chat_id: str, user: str) -> Reach | None:
    """None when there is no such chat."""
    rows = await tx.fetch(
        f"""
        WITH RECURSIVE above (id, parent_id, owner, height) AS (
            SELECT id, parent_id, owner, 0 FROM chats WHERE id = :chat
            UNION ALL
            SELECT c.id, c.parent_id, c.owner, a.height + 1
              FROM chats c JOIN above a ON c.id = a.parent_id
        )
        SELECT a.id, a.owner,
               EXISTS (SELECT 1 FROM shares s
                        WHERE s.chat_id = a.id AND s.user_id = :user
                          AND (s.expires_at IS NULL OR s.expires_at > {tx.dialect.now}))
          FROM above a ORDER BY a.height
        """,
        {"chat": chat_id, "user": user},
    )
    if not rows:
        return None
    return Reach(rows[0][1], frozenset(row[0] for row in rows), any(row[2] for row in rows))
