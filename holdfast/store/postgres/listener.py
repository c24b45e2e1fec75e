"""The listening connection: receives notifications of other processes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from holdfast.store.postgres.notification_sender import CHANGED, CLAIMABLE

if TYPE_CHECKING:
    from holdfast.store.postgres.connect import Connection

LOG: Final = logging.getLogger("holdfast")

PROBE_INTERVAL: Final = 15.0
"""Seconds between two checks that the connection is alive: an idle one can break unnoticed."""
PROBE_TIMEOUT: Final = 5.0
"""Seconds after which a connection that does not answer counts as broken."""
FIRST_RETRY_DELAY: Final = 0.1
LONGEST_RETRY_DELAY: Final = 5.0


class Listener:
    """The listening connection: listens after `start`, and reconnects while `run` runs."""

    def __init__(
        self,
        connect: Callable[[], Awaitable[Connection]],
        *,
        on_notification: Callable[[str, str], None],
        on_resumed: Callable[[], None],
        probe: float | None = PROBE_INTERVAL,
    ) -> None:
        """Take the function that connects, and the functions that are notified.

        on_notification: called with the channel and the text of each notification.
        on_resumed: called when notifications arrive again; those sent in between are lost.
        """
        self._connect = connect
        self._on_notification = on_notification
        self._on_resumed = on_resumed
        self._probe = probe
        self._connection: Connection | None = None

    async def start(self) -> None:
        """Connect and listen; returns when it listens."""
        self._connection = await self._listen()

    def stop(self) -> None:
        """Stop listening."""
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None

    async def ping(self) -> None:
        """Return when the server has answered on the listening connection."""
        if self._connection is not None:
            await self._connection.execute("SELECT 1")

    async def run(self) -> None:
        """Reconnect whenever the connection is lost, until cancelled."""
        while True:
            if self._connection is not None:
                await self._wait_until_lost(self._connection)
            self._connection = await self._reconnect()
            self._on_resumed()

    async def _listen(self) -> Connection:
        connection = await self._connect()
        try:
            for channel in (CHANGED, CLAIMABLE):
                await connection.add_listener(channel, self._receive)
        except BaseException:
            connection.terminate()
            raise
        return connection

    def _receive(self, _connection: object, _pid: int, channel: str, payload: object) -> None:
        self._on_notification(channel, str(payload))

    async def _wait_until_lost(self, connection: Connection) -> None:
        """Return when the connection is lost, or no longer answers."""
        terminated = asyncio.Event()
        connection.add_termination_listener(lambda _: terminated.set())
        while not connection.is_closed():
            try:
                async with asyncio.timeout(self._probe):
                    await terminated.wait()
            except TimeoutError:
                await self._probe_connection(connection)

    async def _probe_connection(self, connection: Connection) -> None:
        try:
            await connection.execute("SELECT 1", timeout=PROBE_TIMEOUT)
        except Exception:
            connection.terminate()

    async def _reconnect(self) -> Connection:
        delay = FIRST_RETRY_DELAY
        while True:
            try:
                return await self._listen()
            except Exception as error:
                LOG.warning("cannot listen to PostgreSQL, retrying in %g s: %s", delay, error)
            await asyncio.sleep(delay)
            delay = min(2 * delay, LONGEST_RETRY_DELAY)
