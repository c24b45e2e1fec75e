"""Virtual time stands still while a database is busy, in every test.

A server and a thread take real time, which a virtual loop does not see: it would jump to the next
timer meanwhile, such as the timeout of the very query that is running. So time is held here, from
outside: wherever asyncpg waits for an answer of PostgreSQL, until its notifications have been
received, and while a thread of SQLite has jobs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from typing import Any, Final, ParamSpec, TypeVar
from weakref import WeakSet

import asyncpg
import pytest
from asyncpg.protocol import Protocol

from holdfast.store.postgres import database as postgres
from holdfast.store.postgres.listener import Listener
from holdfast.store.postgres.notification_sender import CHANGED, Notifier
from holdfast.store.sqlite import executors as sqlite
from holdfast.testing import VirtualLoop

P = ParamSpec("P")
T = TypeVar("T")

BUSY_SECONDS: Final = 30.0
"""Real seconds that a server on a busy machine may take, without that being a deadlock."""
REQUESTS: Final = (
    *("prepare", "bind_execute", "bind_execute_many", "bind", "execute", "close_portal", "query"),
    *("copy_out", "copy_in", "close_statement", "close"),
)
"""Methods of asyncpg's protocol that wait for an answer of the server."""


def hold() -> AbstractContextManager[None]:
    """Hold virtual time during a block that waits for another process, or for a thread."""
    loop = asyncio.get_running_loop()
    if not isinstance(loop, VirtualLoop):
        return nullcontext()
    loop.io_timeout = BUSY_SECONDS
    return loop.hold_time()


@contextmanager
def held_for_databases() -> Iterator[None]:
    """Hold virtual time for all databases during the block."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asyncpg, "connect", _held(asyncpg.connect))
        for name in REQUESTS:
            patch.setattr(Protocol, name, _held(getattr(Protocol, name)))
        patch.setattr(postgres, "Listener", SharedListener)
        patch.setattr(postgres, "Notifier", DeliveringNotifier)
        patch.setattr(sqlite, "GilYield", HoldingGilYield)
        yield


unheld = False
"""Whether time passes although a database is busy: for tests of servers that do not answer."""


def _held(wait: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    async def held(*args: P.args, **options: P.kwargs) -> T:
        with nullcontext() if unheld else hold():
            return await wait(*args, **options)

    return held


class SharedListener(Listener):
    """A listening connection that several tasks may use: asyncpg allows one at a time."""

    opened: Final[WeakSet[SharedListener]] = WeakSet()
    """The listeners of all databases."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._lock = asyncio.Lock()
        self._loop = asyncio.get_running_loop()
        self.opened.add(self)

    async def ping(self) -> None:
        async with self._lock:
            if self._connection is not None:
                # Changes nothing, and tests still know the connection by its last statement.
                await self._connection.execute(f"LISTEN {CHANGED}")

    async def _probe_connection(self, connection: Any) -> None:
        async with self._lock:
            await super()._probe_connection(connection)

    @classmethod
    async def deliver(cls) -> None:
        """Return when every listener has received what was sent: a server sends that before it
        answers."""
        for listener in tuple(cls.opened):
            if listener._loop is asyncio.get_running_loop():
                with suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
                    await listener.ping()


class DeliveringNotifier(Notifier):
    """A notifier whose notifications have been received when they are sent."""

    def __init__(
        self, sender: str, notify: Callable[[Sequence[str], Sequence[str]], Awaitable[None]]
    ) -> None:
        async def notify_and_deliver(channels: Sequence[str], texts: Sequence[str]) -> None:
            await notify(channels, texts)
            await SharedListener.deliver()

        super().__init__(sender, notify_and_deliver)


class HoldingGilYield(sqlite.GilYield):
    """Holds time while threads have jobs. The loop then waits for them without yielding the GIL."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._hold = ExitStack()

    def begin(self) -> None:
        super().begin()
        self._hold_if_pending()

    def begin_now(self, submit: Callable[[], None]) -> None:
        super().begin_now(submit)
        self._hold_if_pending()

    def end(self, count: int) -> None:
        super().end(count)
        self._hold_if_pending()

    def _hold_if_pending(self) -> None:
        self._hold.close()
        if self.pending:
            self._hold.enter_context(hold())
