"""Shares: read access to a chat, for a user or for anyone with a link.

A share covers the chat's child chats too, since they are part of its work.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from holdfast.chat.deleted_or_unshared import note_shared, note_unshared
from holdfast.chat.rows import CHAT_COLUMNS, check_text
from holdfast.server.identity.credential_format import hash_of
from holdfast.server.problem import NotFound, TooMany
from holdfast.store.database import Row, Tx

MAX_SHARES: Final = 200
"""Most shares of one chat."""


class Share(Struct, frozen=True):
    """Read access to a chat, for one user or by link."""

    id: str
    chat: str
    user: str | None
    """Id of the user; None for a link."""
    name: str | None
    """Name of the user; None for a link."""
    created_at: int
    expires_at: int | None = None


class ShareNotFound(NotFound):
    """The chat has no share with this id."""

    kind = "share_not_found"


class NewShare(Struct, frozen=True, kw_only=True):
    """A share to create: either `user` or `secret` is set."""

    id: str
    chat: str
    by: str
    user: str | None = None
    secret: str | None = None
    """Secret of a link; None for a share with a user."""
    lifetime: int | None = None
    """Seconds until the share expires; None: never."""


async def share(tx: Tx, new: NewShare) -> Share:
    """Create a share. For a user who already has one, its expiry is replaced."""
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
    (created,) = await _shares(tx, "s.id = :id", {"id": row[0]})
    return created


async def _refuse_more(tx: Tx, chat: str, user: str | None) -> None:
    """`user`: not counted, since sharing again with the same user adds no share."""
    others = "" if user is None else "AND (user_id IS NULL OR user_id <> :user)"
    row = await tx.one(
        f"SELECT count(*) FROM shares WHERE chat_id = :chat {others}",
        {"chat": chat, **({} if user is None else {"user": user})},
    )
    if row is not None and row[0] >= MAX_SHARES:
        raise TooMany(
            f"the chat is shared {MAX_SHARES} times already: revoke some", limit=MAX_SHARES
        )


async def list_shares(tx: Tx, chat: str) -> tuple[Share, ...]:
    """The shares of a chat, oldest first."""
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
    """Delete a share. Raises `ShareNotFound`."""
    check_text("share", id)
    params = {"chat": chat, "id": id}
    shares = await _shares(tx, "s.chat_id = :chat AND s.id = :id", params)
    if not shares:
        raise ShareNotFound(f"this chat has no share {id!r}", share=id)
    await tx.execute("DELETE FROM shares WHERE chat_id = :chat AND id = :id", params)
    if shares[0].user is not None:
        await note_unshared(tx, chat, shares[0].user)
    return shares[0]


class Reach(Struct, frozen=True):
    """How a user can reach a chat: who owns it, and what it or its parents are shared as."""

    columns: Row
    """Columns of the chat, as `chat_of` takes them."""
    owner: str
    above: frozenset[str]
    """Ids of the chat and of all chats above it."""
    shared: bool
    """Whether one of these chats is shared with the user."""


async def reach(tx: Tx, chat_id: str, user: str) -> Reach | None:
    """How a user can reach a chat; None if there is no such chat."""
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
                          AND (s.expires_at IS NULL OR s.expires_at > {tx.dialect.now})),
               {", ".join(f"c.{name}" for name in CHAT_COLUMNS)}
          FROM above a LEFT JOIN chats c ON c.id = a.id AND a.height = 0 ORDER BY a.height
        """,
        {"chat": chat_id, "user": user},
    )
    if not rows:
        return None
    _, owner, _, *columns = rows[0]
    above = frozenset(row[0] for row in rows)
    return Reach(tuple(columns), owner, above, any(row[2] for row in rows))
