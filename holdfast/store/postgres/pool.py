"""A connection pool.

Not asyncpg's own: that one resets a connection at each return, which is a round trip per
transaction. Nothing here leaves a connection in another state than it was taken in.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.store.postgres.connect import Connection


class Pool:
    """A pool that prefers the connection returned last, which has most in its caches."""

    def __init__(self, connect: Callable[[], Awaitable[Connection]], limit: int) -> None:
        self._connect = connect
        self._limit = limit
        self._idle: list[Connection] = []
        self._places = 0
        """Number of connections that are idle, taken or being made."""
        self._waiting: deque[asyncio.Future[Connection | None]] = deque()

    async def take(self) -> Connection:
        """Wait for a connection. It has to be given back."""
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed():
                return connection
            self._places -= 1
        if self._places < self._limit:
            self._places += 1
        elif connected := await self._wait():
            return connected
        try:
            return await self._connect()
        except BaseException:
            self._pass_on(None)
            raise

    def give(self, connection: Connection) -> None:
        """Return a connection. One that is closed or in a transaction is terminated."""
        if connection.is_closed() or connection.is_in_transaction():
            connection.terminate()
            self._pass_on(None)
        else:
            self._pass_on(connection)

    def forget(self) -> None:
        """Terminate idle connections: when one turned out to be dead, the others may be too."""
        while self._idle:
            self._idle.pop().terminate()
            self._places -= 1

    async def _wait(self) -> Connection | None:
        """Wait in turn for a connection, or for room to make one."""
        turn: asyncio.Future[Connection | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it arrived together with the cancellation
                self._pass_on(turn.result())
            raise

    def _pass_on(self, connection: Connection | None) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(connection)
                return
        if connection is None:
            self._places -= 1
        else:
            self._idle.append(connection)


class Line:
    """A connection for one purpose, made when first needed, and again after it was lost."""

    def __init__(self, connect: Callable[[], Awaitable[Connection]]) -> None:
        self._connect = connect
        self._connection: Connection | None = None

    async def get(self) -> Connection:
        """Return the connection. For one user at a time."""
        if self._connection is None or self._connection.is_closed():
            self._connection = await self._connect()
        return self._connection
