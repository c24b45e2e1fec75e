"""The databases that tests are given: empty, of both kinds, and the test's own time."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.store.database import Database, Tx
from holdfast.testing import START, Clock
from tests.databases import OpenDatabase


async def mark(tx: Tx) -> None:
    await tx.execute(
        f"""
        INSERT INTO workers (id, agents, started_at, beat_at)
        VALUES ('me', '[]', {tx.dialect.now}, {tx.dialect.now})
        """
    )


async def marks(tx: Tx) -> list[int]:
    return [row[0] for row in await tx.fetch("SELECT beat_at FROM workers")]


@pytest.mark.parametrize("turn", [1, 2])
async def test_each_test_finds_an_empty_database(db: Database, turn: int) -> None:
    assert await db.read(marks) == []
    await db.write(mark)


async def test_it_goes_by_the_time_of_the_test(db: Database, clock: Clock) -> None:
    await asyncio.sleep(60)
    clock.advance(1)
    await db.write(mark)
    assert await db.read(marks) == [START + 61_000_000]


async def test_it_can_be_opened_again(open_db: OpenDatabase) -> None:
    async with open_db() as db:
        await db.write(mark)
    async with open_db() as db:
        assert await db.read(marks) == [START]


@pytest.mark.parametrize("open_db", ["postgres"], indirect=True)
async def test_postgres_can_be_opened_several_times_at_once(open_db: OpenDatabase) -> None:
    async with open_db() as first, open_db() as second:
        await first.write(mark)
        assert await second.read(marks) == [START]
