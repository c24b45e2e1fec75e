"""The one door to chats: each call is one transaction of the transition it is named for.

Lock, check, raise the version, write, commit, and only then tell: see `locked.py`. A call with a
`Key` is carried out once, however often it is made.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Literal, TypeVar

import anyio
from msgspec import Struct

from holdfast.chat import family, people
from holdfast.chat.errors import InvalidInput, KeyReused
from holdfast.chat.family import NewChat
from holdfast.chat.locked import now_of, read_chat
from holdfast.chat.people import Edited, Sent
from holdfast.chat.state import Answer, Chat, Deliver, Queued, Rule, Stored
from holdfast.kernel.messages import Message, decode, encode, prepare_to_decode
from holdfast.kernel.ports import Ports
from holdfast.store.database import Database, OutcomeUnknown, Tx

T = TypeVar("T")
KEPT: Final = 7 * 24 * 3600 * 1_000_000
"""Microseconds that the answer to a key is kept."""


class Key(Struct, frozen=True):
    """What makes a request the same as another: who asks, their key, and what they ask."""

    caller: str
    key: str
    fingerprint: str


class Machine:
    """Chats as people change them."""

    def __init__(self, db: Database, ports: Ports) -> None:
        self._db = db
        self._ports = ports

    async def create(self, new: NewChat, key: Key | None = None) -> Chat:
        return await self._once(key, Chat, lambda tx: family.create(tx, new), makes=new.id)

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
        if deliver not in people.SENDS:
            raise InvalidInput(f"deliver is {deliver!r}: use one of {', '.join(people.SENDS)}")
        queued = Queued(self._ports.new_id(), deliver, message, 0, model, effort, author)
        return await self._once(key, Sent, lambda tx: people.send(tx, chat_id, queued))

    async def interrupt(self, chat_id: str, marker: str = "", key: Key | None = None) -> Chat:
        return await self._once(key, Chat, lambda tx: people.interrupt(tx, chat_id, marker))

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
            return await people.edit(
                tx, chat_id, number, message, author=author, model=model, effort=effort
            )

        return await self._once(key, Edited, change, short=False)

    async def fork(self, chat_id: str, number: int, new: NewChat, key: Key | None = None) -> Chat:
        return await self._once(
            key,
            Chat,
            lambda tx: family.fork(tx, chat_id, number, new),
            makes=new.id,
            short=False,
        )

    async def restore(
        self, new: NewChat, messages: Sequence[Stored], key: Key | None = None
    ) -> Chat:
        return await self._once(
            key,
            Chat,
            lambda tx: family.restore(tx, new, messages),
            makes=new.id,
            short=False,
        )

    async def retry(self, chat_id: str, key: Key | None = None) -> Chat:
        return await self._once(key, Chat, lambda tx: people.retry(tx, chat_id))

    async def compact(self, chat_id: str, key: Key | None = None) -> Chat:
        return await self._once(key, Chat, lambda tx: people.compact(tx, chat_id))

    async def resolve(
        self,
        chat_id: str,
        answers: Mapping[str, Answer],
        rule: Rule | None = None,
        key: Key | None = None,
    ) -> Chat:
        return await self._once(key, Chat, lambda tx: people.resolve(tx, chat_id, answers, rule))

    async def update(
        self, chat_id: str, changes: Mapping[str, Any], key: Key | None = None
    ) -> Chat:
        return await self._once(key, Chat, lambda tx: people.update(tx, chat_id, changes))

    async def archive(self, chat_id: str, key: Key | None = None) -> Chat:
        return await self._once(key, Chat, lambda tx: family.archive(tx, chat_id), short=False)

    async def unarchive(self, chat_id: str, key: Key | None = None) -> Chat:
        return await self._once(key, Chat, lambda tx: family.unarchive(tx, chat_id), short=False)

    async def delete(self, chat_id: str, key: Key | None = None) -> tuple[str, ...]:
        return await self._once(
            key, tuple[str, ...], lambda tx: family.delete(tx, chat_id), short=False
        )

    # --- the queue ---

    async def promote(self, chat_id: str, id: str, key: Key | None = None) -> Sent:
        return await self._once(key, Sent, lambda tx: people.promote(tx, chat_id, id))

    async def edit_queued(
        self,
        chat_id: str,
        id: str,
        message: Message,
        deliver: Literal["steer", "queue"] | None = None,
        key: Key | None = None,
    ) -> list[Queued]:
        async def change(tx: Tx) -> list[Queued]:
            return await people.edit_queued(tx, chat_id, id, message, deliver)

        return await self._once(key, list[Queued], change)

    async def reorder(
        self, chat_id: str, ids: Sequence[str], key: Key | None = None
    ) -> list[Queued]:
        return await self._once(key, list[Queued], lambda tx: people.reorder(tx, chat_id, ids))

    async def remove_queued(self, chat_id: str, id: str, key: Key | None = None) -> Queued:
        return await self._once(key, Queued, lambda tx: people.remove_queued(tx, chat_id, id))

    # --- reading ---

    async def read(self, chat_id: str) -> Chat:
        return await self._db.read(lambda tx: read_chat(tx, chat_id))

    # --- once ---

    async def remembered(self, key: Key | None, kind: type[T]) -> T | None:
        """What was answered to a request that was made already. Raises `KeyReused`."""
        if key is None:
            return None

        async def read(tx: Tx) -> T | None:
            found = await _known(tx, key)
            return None if found is None else decode(found, kind)

        return await self._db.read(read)

    async def _once(
        self,
        key: Key | None,
        kind: type[T],
        change: Callable[[Tx], Awaitable[T]],
        makes: str | None = None,
        *,
        short: bool = True,
    ) -> T:
        return await once(self._db, key, kind, change, makes, short=short)


async def once(
    db: Database,
    key: Key | None,
    kind: type[T],
    change: Callable[[Tx], Awaitable[T]],
    makes: str | None = None,
    *,
    short: bool = False,
) -> T:
    """Carry out a change; with a key, give the first answer again instead of a second change.

    The key of a chat that it `makes` is kept as long as the chat, any other for a week. `short`: as
    for `Database.write`.

    The key also heals a lost acknowledgement: asked again, the database says what it did.
    """
    if key is None:
        return await db.write(change, short=short)
    for wait in (0.0, 0.1, 1.0, None):
        try:
            return await db.write(lambda tx: _with_key(tx, key, kind, change, makes), short=short)
        except OutcomeUnknown:
            if wait is None:
                raise
            await anyio.sleep(wait)
    raise AssertionError


async def _with_key(
    tx: Tx, key: Key, kind: type[T], change: Callable[[Tx], Awaitable[T]], makes: str | None
) -> T:
    given: dict[str, Any] = {"caller": key.caller, "key": key.key}
    row = {**given, "fingerprint": key.fingerprint, "chat": makes, "at": await now_of(tx)}
    # Whoever comes second waits here for the first, and then finds its answer.
    while not await tx.execute(REMEMBER, row):
        known = await _known(tx, key)
        if known is not None:
            return decode(known, kind)
        # The chat that it made was deleted: there is nothing left to give again. Somebody else may
        # have found the same, and be quicker: then their answer is found next.
        await tx.execute(FORGET, given)
    made = await change(tx)
    await tx.execute(
        "UPDATE requests SET response = :response WHERE caller = :caller AND key = :key",
        {**given, "response": encode(made).decode()},
    )
    return made


async def _known(tx: Tx, key: Key) -> str | None:
    """What was answered to it, unless that was a chat which is gone."""
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


REMEMBER: Final = """
    INSERT INTO requests (caller, key, fingerprint, response, chat_id, created_at)
    VALUES (:caller, :key, :fingerprint, '', :chat, :at)
    ON CONFLICT (caller, key) DO NOTHING
    """

FORGET: Final = """
    DELETE FROM requests
     WHERE caller = :caller AND key = :key
       AND NOT EXISTS (SELECT 1 FROM chats c WHERE c.id = requests.chat_id)
    """


async def forget_old_keys(tx: Tx) -> None:
    await tx.execute(
        f"""
        DELETE FROM requests
         WHERE created_at < {tx.dialect.now} - {KEPT}
           AND NOT EXISTS (SELECT 1 FROM chats c WHERE c.id = requests.chat_id)
        """
    )


DECODED: Final = (Chat, Sent, Edited, Queued, list[Queued], tuple[str, ...])
"""What a key gives again."""
prepare_to_decode(*DECODED)
