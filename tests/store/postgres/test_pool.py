"""The pool lends what it has, waits its limit out, and loses no place."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

import pytest

from holdfast.store.postgres.pool import ConnectionPool, DedicatedConnection

if TYPE_CHECKING:
    from holdfast.store.postgres.connect import Connection


class Server:
    """Makes connections that are none."""

    def __init__(self) -> None:
        self.made: list[Stub] = []
        self.failures = 0
        """How many of the next connections cannot be made."""

    async def connect(self) -> Connection:
        await asyncio.sleep(0)
        if self.failures:
            self.failures -= 1
            raise ConnectionRefusedError
        self.made.append(Stub())
        return cast("Connection", self.made[-1])


class Stub:
    def __init__(self) -> None:
        self.closed = False
        self.in_transaction = False

    def is_closed(self) -> bool:
        return self.closed

    def is_in_transaction(self) -> bool:
        return self.in_transaction

    def terminate(self) -> None:
        self.closed = True


def stub(connection: Connection) -> Stub:
    return cast(Stub, connection)


async def test_the_connection_that_came_back_last_is_lent_first() -> None:
    server = Server()
    pool = ConnectionPool(server.connect, 3)
    first, second = await pool.take(), await pool.take()
    pool.give(second)
    pool.give(first)
    assert await pool.take() is first
    assert await pool.take() is second
    assert len(server.made) == 2


async def test_at_the_limit_whoever_wants_one_waits_in_turn() -> None:
    pool = ConnectionPool(Server().connect, 1)
    taken = await pool.take()
    waiting = [asyncio.ensure_future(pool.take()) for _ in range(2)]
    await asyncio.sleep(0)
    pool.give(taken)
    assert await waiting[0] is taken
    assert not waiting[1].done()
    pool.give(taken)
    assert await waiting[1] is taken


@pytest.mark.parametrize("closed", [True, False])
async def test_one_that_comes_back_unfit_makes_room_for_a_new_one(closed: bool) -> None:
    server = Server()
    pool = ConnectionPool(server.connect, 1)
    taken = await pool.take()
    waiting = asyncio.ensure_future(pool.take())
    await asyncio.sleep(0)
    stub(taken).closed, stub(taken).in_transaction = closed, not closed
    pool.give(taken)
    assert await waiting is not taken
    assert stub(taken).closed
    assert len(server.made) == 2


async def test_one_that_closed_while_idle_is_not_lent_again() -> None:
    pool = ConnectionPool(Server().connect, 1)
    taken = await pool.take()
    pool.give(taken)
    stub(taken).closed = True
    assert await pool.take() is not taken


async def test_forgetting_ends_what_is_idle_and_frees_its_place() -> None:
    pool = ConnectionPool(Server().connect, 1)
    taken = await pool.take()
    pool.give(taken)
    pool.forget()
    assert stub(taken).closed
    assert await pool.take() is not taken


async def test_a_connection_that_could_not_be_made_leaves_its_place_to_the_next() -> None:
    server = Server()
    server.failures = 1
    pool = ConnectionPool(server.connect, 1)
    first, second = (asyncio.ensure_future(pool.take()) for _ in range(2))
    with pytest.raises(ConnectionRefusedError):
        await first
    assert stub(await second) is server.made[0]


async def test_whoever_stops_waiting_passes_on_what_it_was_given_meanwhile() -> None:
    pool = ConnectionPool(Server().connect, 1)
    taken = await pool.take()
    first, second = (asyncio.ensure_future(pool.take()) for _ in range(2))
    await asyncio.sleep(0)
    pool.give(taken)
    first.cancel()
    assert await second is taken
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_whoever_stopped_waiting_is_passed_over() -> None:
    pool = ConnectionPool(Server().connect, 1)
    taken = await pool.take()
    first, second = (asyncio.ensure_future(pool.take()) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    pool.give(taken)
    assert await second is taken


async def test_a_line_is_made_once_and_again_when_it_is_lost() -> None:
    line = DedicatedConnection(Server().connect)
    first = await line.get()
    assert await line.get() is first
    stub(first).closed = True
    assert await line.get() is not first
