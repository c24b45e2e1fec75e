"""The connection that hears what other processes tell."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from holdfast.store.database import Hold
from holdfast.store.pg.notifier import CHANGED, CLAIMABLE

if TYPE_CHECKING:
    from holdfast.store.pg.connect import Connection

LOG: Final = logging.getLogger("holdfast")

PROBE: Final = 15.0
"""Seconds between two looks whether the connection is alive: an idle one can die unnoticed."""
PROBE_BOUND: Final = 5.0
FIRST_WAIT: Final = 0.1
LONGEST_WAIT: Final = 5.0


class Listener:
    """Listens from `start` on, and while `run` runs again whenever the connection was lost."""

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
        """
        hear: is given the channel and the text of a notification.
        deaf: nothing is heard from now on.
        hear_again: everything is heard from now on; what was told in between never will be.
        """
        self._connect = connect
        self._hear = hear
        self._deaf = deaf
        self._hear_again = hear_again
        self._hold = hold
        self._probe = probe
        self._connection: Connection | None = None

    async def start(self) -> None:
        """Returns when it listens."""
        self._connection = await self._listening()

    async def run(self) -> None:
        """Without end: whoever started it cancels it."""
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
        """Returns when the connection is gone, or does not answer any more."""
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
                LOG.warning("cannot listen to PostgreSQL, next try in %g s: %s", wait, error)
            await asyncio.sleep(wait)
            wait = min(2 * wait, LONGEST_WAIT)
