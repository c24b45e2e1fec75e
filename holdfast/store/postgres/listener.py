"""The listening connection: receives notifications of other processes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from holdfast.store.database import Hold
from holdfast.store.postgres.notifier import CHANGED, CLAIMABLE

if TYPE_CHECKING:
    from holdfast.store.postgres.connect import Connection

LOG: Final = logging.getLogger("holdfast")

PROBE: Final = 15.0
"""Seconds between two checks that the connection is alive: an idle one can die unnoticed."""
PROBE_BOUND: Final = 5.0
FIRST_WAIT: Final = 0.1
LONGEST_WAIT: Final = 5.0


class Listener:
    """Listens from `start` on, and reconnects while `run` runs."""

    def __init__(
        self,
        connect: Callable[[], Awaitable[Connection]],
        *,
        hear: Callable[[str, str], None],
        deaf: Callable[[], None],
        hear_again: Callable[[], None],
        hold: Hold,
        probe: float | None = PROBE,
    ) -> None:
        """hear: called with the channel and the text of each notification.
        deaf: called when notifications stop arriving.
        hear_again: called when they arrive again; those sent in between are lost."""
        self._connect = connect
        self._hear = hear
        self._deaf = deaf
        self._hear_again = hear_again
        self._hold = hold
        self._probe = probe
        self._connection: Connection | None = None

    async def start(self) -> None:
        """Connect and listen; returns when it listens."""
        self._connection = await self._listening()

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
                await self._lost(self._connection)
                self._deaf()
            self._connection = await self._reconnected()
            self._hear_again()

    async def _listening(self) -> Connection:
        connection = await self._connect()
        try:
            for channel in (CHANGED, CLAIMABLE):
                await connection.add_listener(channel, self._heard)
        except BaseException:
            connection.terminate()
            raise
        return connection

    def _heard(self, _connection: object, _pid: int, channel: str, payload: object) -> None:
        self._hear(channel, str(payload))

    async def _lost(self, connection: Connection) -> None:
        """Return when the connection is lost, or no longer answers."""
        gone = asyncio.Event()
        connection.add_termination_listener(lambda _: gone.set())
        while not connection.is_closed():
            try:
                async with asyncio.timeout(self._probe):
                    await gone.wait()
            except TimeoutError:
                await self._look(connection)

    async def _look(self, connection: Connection) -> None:
        try:
            with self._hold():
                await connection.execute("SELECT 1", timeout=PROBE_BOUND)
        except Exception:
            connection.terminate()

    async def _reconnected(self) -> Connection:
        wait = FIRST_WAIT
        while True:
            try:
                with self._hold():
                    return await self._listening()
            except Exception as error:
                LOG.warning("cannot listen to PostgreSQL, retrying in %g s: %s", wait, error)
            await asyncio.sleep(wait)
            wait = min(2 * wait, LONGEST_WAIT)
