"""Idempotent operations on chats: each call is one transaction, carried out once per key.

`UserOperations` has a method for each transition that users request. The transition locks, checks,
raises the version and writes; notices follow the commit: see `row_lock.py`. A call with a `Key` is
carried out once, however often it is repeated.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Literal, TypeVar

import anyio
from msgspec import Struct

from holdfast.chat.errors import InvalidInput, KeyReused
from holdfast.chat.row_lock import now_of, read_chat
from holdfast.chat.rows import ActionAnswer, ChatRow, Deliver, Queued, Rule, Stored
from holdfast.chat.transitions import lifecycle, user
from holdfast.chat.transitions.lifecycle import NewChat
from holdfast.chat.transitions.user import Edited, Sent
from holdfast.kernel.messages import Message, decode, encode, prepare_to_decode
from holdfast.kernel.ports import Ports
from holdfast.store.database import Database, OutcomeUnknown, Tx

T = TypeVar("T")
KEY_LIFETIME: Final = 7 * 24 * 3600 * 1_000_000
"""Microseconds for which the response to a key is kept."""


class Key(Struct, frozen=True):
    """Identity of a request: the caller, the caller's key, and a fingerprint of the arguments."""

    caller: str
    key: str
    fingerprint: str


class UserOperations:
    """The operations of users on chats, one transaction each."""

    def __init__(self, db: Database, ports: Ports) -> None:
        self._db = db
        self._ports = ports

    async def create(self, new_chat: NewChat, key: Key | None = None) -> ChatRow:
        return await self._once(
            key, ChatRow, lambda tx: lifecycle.create(tx, new_chat), creates=new_chat.id
        )

    async def send(
        self,
        chat_id: str,
        message: Message,
        deliver: Deliver = "queue",
        *,
        author: str | None = None,
        model: str | None = None,
        effort: str | None = None,
        key: Key | None = None,
    ) -> Sent:
        if deliver not in user.SENDS:
            raise InvalidInput(f"deliver is {deliver!r}: use one of {', '.join(user.SENDS)}")
        queued = Queued(self._ports.new_id(), deliver, message, 0, model, effort, author)
        return await self._once(key, Sent, lambda tx: user.send(tx, chat_id, queued))

    async def interrupt(self, chat_id: str, key: Key | None = None) -> ChatRow:
        return await self._once(key, ChatRow, lambda tx: user.interrupt(tx, chat_id))

    async def edit(
        self,
        chat_id: str,
        number: int,
        message: Message,
        *,
        author: str | None = None,
        model: str | None = None,
        effort: str | None = None,
        key: Key | None = None,
    ) -> Edited:
        async def change(tx: Tx) -> Edited:
            return await user.edit(
                tx, chat_id, number, message, author=author, model=model, effort=effort
            )

        return await self._once(key, Edited, change, short=False)

    async def fork(
        self, chat_id: str, number: int, new_chat: NewChat, key: Key | None = None
    ) -> ChatRow:
        return await self._once(
            key,
            ChatRow,
            lambda tx: lifecycle.fork(tx, chat_id, number, new_chat),
            creates=new_chat.id,
            short=False,
        )

    async def restore(
        self, new_chat: NewChat, messages: Sequence[Stored], key: Key | None = None
    ) -> ChatRow:
        return await self._once(
            key,
            ChatRow,
            lambda tx: lifecycle.restore(tx, new_chat, messages),
            creates=new_chat.id,
            short=False,
        )

    async def retry(self, chat_id: str, key: Key | None = None) -> ChatRow:
        return await self._once(key, ChatRow, lambda tx: user.retry(tx, chat_id))

    async def compact(self, chat_id: str, key: Key | None = None) -> ChatRow:
        return await self._once(key, ChatRow, lambda tx: user.compact(tx, chat_id))

    async def resolve(
        self,
        chat_id: str,
        answers: Mapping[str, ActionAnswer],
        rule: Rule | None = None,
        key: Key | None = None,
    ) -> ChatRow:
        return await self._once(key, ChatRow, lambda tx: user.resolve(tx, chat_id, answers, rule))

    async def update(
        self, chat_id: str, changes: Mapping[str, Any], key: Key | None = None
    ) -> ChatRow:
        return await self._once(key, ChatRow, lambda tx: user.update(tx, chat_id, changes))

    async def archive(self, chat_id: str, key: Key | None = None) -> ChatRow:
        return await self._once(
            key, ChatRow, lambda tx: lifecycle.archive(tx, chat_id), short=False
        )

    async def unarchive(self, chat_id: str, key: Key | None = None) -> ChatRow:
        return await self._once(
            key, ChatRow, lambda tx: lifecycle.unarchive(tx, chat_id), short=False
        )

    async def delete(self, chat_id: str, key: Key | None = None) -> tuple[str, ...]:
        return await self._once(
            key, tuple[str, ...], lambda tx: lifecycle.delete(tx, chat_id), short=False
        )

    # --- the queue ---

    async def promote(self, chat_id: str, id: str, key: Key | None = None) -> Sent:
        return await self._once(key, Sent, lambda tx: user.promote(tx, chat_id, id))

    async def edit_queued(
        self,
        chat_id: str,
        id: str,
        message: Message,
        deliver: Literal["steer", "queue"] | None = None,
        key: Key | None = None,
    ) -> list[Queued]:
        async def change(tx: Tx) -> list[Queued]:
            return await user.edit_queued(tx, chat_id, id, message, deliver)

        return await self._once(key, list[Queued], change)

    async def reorder(
        self, chat_id: str, ids: Sequence[str], key: Key | None = None
    ) -> list[Queued]:
        return await self._once(key, list[Queued], lambda tx: user.reorder(tx, chat_id, ids))

    async def remove_queued(self, chat_id: str, id: str, key: Key | None = None) -> Queued:
        return await self._once(key, Queued, lambda tx: user.remove_queued(tx, chat_id, id))

    # --- reading ---

    async def read(self, chat_id: str) -> ChatRow:
        return await self._db.read(lambda tx: read_chat(tx, chat_id))

    # --- idempotency ---

    async def stored_response(self, key: Key | None, kind: type[T]) -> T | None:
        """Return the response to an earlier request with this key, or None. Raises `KeyReused`."""
        if key is None:
            return None

        async def read(tx: Tx) -> T | None:
            response = await _stored_response(tx, key)
            return None if response is None else decode(response, kind)

        return await self._db.read(read)

    async def _once(
        self,
        key: Key | None,
        kind: type[T],
        change: Callable[[Tx], Awaitable[T]],
        creates: str | None = None,
        *,
        short: bool = True,
    ) -> T:
        return await once(self._db, key, kind, change, creates, short=short)


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
