"""Idempotency: a change with a `Key` is one transaction that is carried out once per key.

The key is stored in the transaction of the change, with the response. A refused change leaves no
trace, so the same key may be used again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

import anyio
from msgspec import Struct

from holdfast.chat.causes import with_cause
from holdfast.chat.database_clock import now_of
from holdfast.chat.errors import KeyReused
from holdfast.chat.rows import ChatRow, Queued
from holdfast.chat.transitions.user import Edited, Sent
from holdfast.kernel.messages import decode, encode, prepare_to_decode
from holdfast.store.database import Database, OutcomeUnknown, Tx

T = TypeVar("T")
KEY_LIFETIME: Final = 7 * 24 * 3600 * 1_000_000
"""Microseconds for which the response to a key is kept."""


class Key(Struct, frozen=True):
    """Identity of a request: the caller, the caller's key, and a fingerprint of the arguments."""

    caller: str
    key: str
    fingerprint: str


async def once(
    db: Database,
    key: Key | None,
    kind: type[T],
    change: Callable[[Tx], Awaitable[T]],
    creates: str | None = None,
    *,
    short: bool = False,
) -> T:
    """Run a transaction; with a key that was used before, return the first response instead.

    A key is kept for a week, or as long as the chat that the request `creates`. `short` has the
    same meaning as in `Database.write`.

    The key also makes it safe to retry after a lost acknowledgement: if the first attempt was
    committed, the retried transaction finds its response.
    """
    change = with_cause(change)
    if key is None:
        return await db.write(change, short=short)
    for delay in (0.0, 0.1, 1.0, None):
        try:
            return await db.write(lambda tx: _with_key(tx, key, kind, change, creates), short=short)
        except OutcomeUnknown:
            if delay is None:
                raise
            await anyio.sleep(delay)
    raise AssertionError


async def stored_response(db: Database, key: Key | None, kind: type[T]) -> T | None:
    """Return the response to an earlier request with this key, or None. Raises `KeyReused`."""
    if key is None:
        return None
    response = await db.read(lambda tx: _stored_response(tx, key))
    return None if response is None else decode(response, kind)


async def _with_key(
    tx: Tx, key: Key, kind: type[T], change: Callable[[Tx], Awaitable[T]], creates: str | None
) -> T:
    key_params: dict[str, Any] = {"caller": key.caller, "key": key.key}
    row = {**key_params, "fingerprint": key.fingerprint, "chat": creates, "at": await now_of(tx)}
    # A concurrent request with the same key waits here for the first, and then finds its response.
    while not await tx.execute(RESERVE_KEY, row):
        response = await _stored_response(tx, key)
        if response is not None:
            return decode(response, kind)
        # The chat that it created was deleted, so there is no response to return. A concurrent
        # request may delete the key first: then its response is found next.
        await tx.execute(RELEASE_KEY, key_params)
    value = await change(tx)
    await tx.execute(
        "UPDATE requests SET response = :response WHERE caller = :caller AND key = :key",
        {**key_params, "response": encode(value).decode()},
    )
    return value


async def _stored_response(tx: Tx, key: Key) -> str | None:
    """Return the stored response, unless it is a chat that was deleted."""
    row = await tx.one(
        """
        SELECT r.fingerprint, r.response, r.chat_id IS NOT NULL AND c.id IS NULL
          FROM requests r LEFT JOIN chats c ON c.id = r.chat_id
         WHERE r.caller = :caller AND r.key = :key
        """,
        {"caller": key.caller, "key": key.key},
    )
    if row is None:
        return None
    if row[0] != key.fingerprint:
        raise KeyReused(key.key)
    return None if row[2] else row[1]


RESERVE_KEY: Final = """
    INSERT INTO requests (caller, key, fingerprint, response, chat_id, created_at)
    VALUES (:caller, :key, :fingerprint, '', :chat, :at)
    ON CONFLICT (caller, key) DO NOTHING
    """

RELEASE_KEY: Final = """
    DELETE FROM requests
     WHERE caller = :caller AND key = :key
       AND NOT EXISTS (SELECT 1 FROM chats c WHERE c.id = requests.chat_id)
    """


async def forget_old_keys(tx: Tx) -> None:
    """Delete keys that are older than a week, except those of existing chats."""
    await tx.execute(
        f"""
        DELETE FROM requests
         WHERE created_at < {tx.dialect.now} - {KEY_LIFETIME}
           AND NOT EXISTS (SELECT 1 FROM chats c WHERE c.id = requests.chat_id)
        """
    )


DECODED: Final = (ChatRow, Sent, Edited, Queued, list[Queued], tuple[str, ...])
"""Types of stored responses."""
prepare_to_decode(*DECODED)
