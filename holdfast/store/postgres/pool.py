"""A connection pool.

Not asyncpg's pool, which costs more CPU even without a reset and detaches a lost connection from
its user (docs/decisions/0023). Here every user of a connection returns it in the state in which it
was taken.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.store.postgres.connect import Connection


class ConnectionPool:
    """A pool that prefers the connection returned last, which has most in its caches."""

    def __init__(self, connect: Callable[[], Awaitable[Connection]], limit: int) -> None:
        self._connect = connect
        self._limit = limit
        self._idle: list[Connection] = []
        self._size = 0
        """Number of connections that are idle, taken or being opened."""
        self._waiting: deque[asyncio.Future[Connection | None]] = deque()

    async def take(self) -> Connection:
        """Take a connection, waiting for one if necessary. The caller must `give` it back."""
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed():
                return connection
            self._size -= 1
        if self._size < self._limit:
            self._size += 1
        elif passed_on := await self._wait():
            return passed_on
        try:
            return await self._connect()
        except BaseException:
            self._pass_on(None)
            raise

    def give(self, connection: Connection) -> None:
        """Return a connection. A connection that is closed or in a transaction is terminated."""
        if connection.is_closed() or connection.is_in_transaction():
            connection.terminate()
            self._pass_on(None)
        else:
            self._pass_on(connection)

    def forget(self) -> None:
        """Terminate idle connections: after one was lost, the others may be lost, too."""
        while self._idle:
            self._idle.pop().terminate()
            self._size -= 1

    async def _wait(self) -> Connection | None:
        """Wait in turn for a connection; None if the caller may open a new one."""
        waiter: asyncio.Future[Connection | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():  # passed on just before the cancellation
                self._pass_on(waiter.result())
            raise

    def _pass_on(self, connection: Connection | None) -> None:
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(connection)
                return
        if connection is None:
            self._size -= 1
        else:
            self._idle.append(connection)


class DedicatedConnection:
    """A connection for one purpose, opened when first needed and again after it was lost."""

    def __init__(self, connect: Callable[[], Awaitable[Connection]]) -> None:
        self._connect = connect
        self._connection: Connection | None = None

    async def get(self) -> Connection:
        """Return the connection. For one user at a time."""
        if self._connection is None or self._connection.is_closed():
            self._connection = await self._connect()
        return self._connection
