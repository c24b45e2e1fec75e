"""A table for tests of PostgreSQL alone, and a transaction that many run at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from msgspec import Struct

from holdfast.store.database import Changed, ChangeNotice, Database, Tx

SCHEMA: Final = """
CREATE TABLE things (
    id text PRIMARY KEY,
    epoch bigint NOT NULL DEFAULT 1,
    value text CHECK (value <> 'wrong')
);
CREATE FUNCTION guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the guard says no' USING ERRCODE = 'HF001';
END $$;
CREATE TRIGGER guarded BEFORE UPDATE ON things
FOR EACH ROW WHEN (NEW.value = 'guarded') EXECUTE FUNCTION guard();
"""


class Put(Struct, frozen=True):
    """Write a value, if the epoch is still the one named."""

    chat: str
    value: str
    epoch: int = 1


class Putting:
    """How `Put` is done. The outcome is the new epoch, or 0 where the fence was lost."""

    def __init__(self) -> None:
        self.groups: list[Sequence[str]] = []
        """The chats of every statement that was for many."""
        self.alones: list[str] = []

    async def alone(self, tx: Tx, one: Put) -> int:
        self.alones.append(one.chat)
        row = await tx.one(
            """
            UPDATE things SET value = :value, epoch = epoch + 1
             WHERE id = :id AND epoch = :epoch
            RETURNING epoch
            """,
            {"id": one.chat, "value": one.value, "epoch": one.epoch},
        )
        if row is None:
            return 0
        tx.notify(Changed(one.chat, row[0]))
        epoch: int = row[0]
        return epoch

    async def together(self, tx: Tx, many: Sequence[Put]) -> Sequence[int | None]:
        self.groups.append([one.chat for one in many])
        rows = await tx.fetch(
            f"""
            WITH wanted AS (
                SELECT * FROM unnest(
                    CAST(:ids AS text[]), CAST(:epochs AS bigint[]), CAST(:contents AS text[])
                ) AS w (id, epoch, value)
            ), locked AS (
                SELECT id FROM things WHERE id = ANY(CAST(:ids AS text[]))
                 ORDER BY id {tx.dialect.skip_locked}
            )
            UPDATE things SET value = wanted.value, epoch = things.epoch + 1
              FROM wanted JOIN locked ON locked.id = wanted.id
             WHERE things.id = wanted.id AND things.epoch = wanted.epoch
            RETURNING things.id, things.epoch
            """,
            {
                "ids": [one.chat for one in many],
                "epochs": [one.epoch for one in many],
                "contents": [one.value for one in many],
            },
        )
        epochs: dict[str, int] = {row[0]: row[1] for row in rows}
        for id, epoch in epochs.items():
            tx.notify(Changed(id, epoch))
        return [epochs.get(one.chat) for one in many]


def inserting(*ids: str, value: str = "new") -> Callable[[Tx], Awaitable[None]]:
    async def insert(tx: Tx) -> None:
        for id in ids:
            await tx.execute(
                "INSERT INTO things (id, value) VALUES (:id, :value)", {"id": id, "value": value}
            )

    return insert


async def values(db: Database) -> dict[str, str]:
    """All that is committed."""

    async def read(tx: Tx) -> dict[str, str]:
        rows = await tx.fetch("SELECT id, value FROM things")
        return {row[0]: row[1] for row in rows}

    return await db.read(read)


def notifying(*notices: ChangeNotice) -> Callable[[Tx], Awaitable[None]]:
    """A transaction that only sends notices."""

    async def send(tx: Tx) -> None:
        await tx.fetch("SELECT 1")
        for notice in notices:
            tx.notify(notice)

    return send


class NoticeRecorder:
    """Records the notices of a database."""

    def __init__(self, db: Database) -> None:
        self.notices: list[ChangeNotice] = []
        self._came = asyncio.Event()
        self.end = db.listen(self._record)

    def _record(self, notice: ChangeNotice) -> None:
        self.notices.append(notice)
        self._came.set()

    async def until(self, notice: ChangeNotice) -> None:
        """Return when the notice has been received."""
        while notice not in self.notices:
            self._came.clear()
            await self._came.wait()
