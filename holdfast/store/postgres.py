"""PostgreSQL: the database for more than one process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar
from uuid import uuid4

import anyio
import msgspec

from holdfast.store.database import (
    OUTCOME,
    POSTGRES,
    Bulk,
    CannotOpen,
    Closed,
    Dialect,
    Hold,
    Missed,
    Notice,
    OtherLoop,
    StoreError,
    Transaction,
    Unavailable,
)
from holdfast.store.migrate import Script, check
from holdfast.store.migrate import migrate as apply_migrations
from holdfast.store.notices import Notices
from holdfast.store.outcome import Waits, outcome
from holdfast.store.pg import run
from holdfast.store.pg.committer import Committer
from holdfast.store.pg.connect import address, check_server, connect, unreachable
from holdfast.store.pg.listener import PROBE, Listener
from holdfast.store.pg.notifier import Notifier, heard
from holdfast.store.pg.pool import Line, Pool
from holdfast.store.pg.transaction import OneStatement, PostgresTx, ReadTx

if TYPE_CHECKING:
    from holdfast.store.pg.connect import Connection

T = TypeVar("T")
A = TypeVar("A")

SCHEMA_LOCK: Final = 0x_686F_6C64_6661_7374
"""The advisory lock of those who change the schema: "holdfast" in ASCII."""
GOODBYE: Final = 2.0
"""Seconds that the server may take to let a connection go."""


@asynccontextmanager
async def open_postgres(
    url: str,
    *,
    now: Callable[[], int] | None = None,
    hold: Hold | None = None,
    migrate: bool = True,
    pool: int = 10,
    probe: float | None = PROBE,
) -> AsyncIterator[Postgres]:
    """A database on a PostgreSQL server, until the end of the block. `CannotOpen` says what to do.

    now: a clock to go by instead of the database's.
    migrate: bring the schema up to date; otherwise one that is not is refused.
    pool: the most connections for transactions. Three more have a purpose of their own.
    probe: seconds between two looks whether the one that listens is alive; None: never.
    """
    database = Postgres(url, now=now, hold=hold or nullcontext, pool=pool, probe=probe)
    try:
        await database.open(migrate=migrate)
        yield database
    finally:
        await database.close()


class Postgres:
    """Made by `open_postgres`. Belongs to the event loop that it was opened on."""

    exclusive: Final = False
    applied: Sequence[str] = ()
    """The migrations that were applied when it was opened."""

    def __init__(
        self,
        url: str,
        *,
        now: Callable[[], int] | None,
        hold: Hold,
        pool: int,
        probe: float | None,
    ) -> None:
        self._url = url
        self._now = now
        self._dialect = POSTGRES if now is None else _bound_now(POSTGRES)
        self._hold = hold
        self._closed = False
        self._loop = asyncio.get_running_loop()
        self._waits = Waits(self._loop)
        self._id = uuid4().hex
        self._running: set[asyncio.Future[Any]] = set()
        self._services: list[asyncio.Task[None]] = []
        self._connections: set[Connection] = set()
        self._pool = Pool(self._connect, pool)
        # It looks up a few rows by their keys. In a table of some hundred the server would rather
        # read them all.
        by_key = {"lock_timeout": "500ms", "enable_seqscan": "off"}
        self._committing = Line(partial(self._connect, **by_key))
        notifying = Line(partial(self._connect, synchronous_commit="off"))
        self._committer = Committer(
            one_statement=self._one_statement,
            write=self._write,
            tell=self._tell,
            start=self._start,
            hold=hold,
        )
        self._notices = Notices()
        self._notifier = Notifier(self._id, notifying.get, hold)
        self._listener = Listener(
            self._connect,
            hear=self._hear,
            deaf=self._deaf,
            hear_again=self._hear_again,
            hold=hold,
            probe=probe,
        )

    @property
    def dialect(self) -> Dialect:
        return self._dialect

    async def write(self, transaction: Transaction[T], *, short: bool = False) -> T:
        self._check_open()
        return await outcome(self._start(self._write(transaction)))

    async def write_together(self, bulk: Bulk[A, T], one: A) -> T:
        self._check_open()
        return await self._waits.answered(self._committer.submit(bulk, one))

    async def read(self, transaction: Transaction[T], *, short: bool = False) -> T:
        self._check_open()
        end = asyncio.get_running_loop().create_future()
        self._running.add(end)
        try:
            with self._hold():
                return await run.lend(
                    self._pool, lambda connection: run.read(connection, self._read_tx, transaction)
                )
        finally:
            self._running.discard(end)
            end.cancel()

    def listen(self, hear: Callable[[Notice], None]) -> Callable[[], None]:
        return self._notices.listen(hear)

    async def change_schema(self, transaction: Callable[[Script], Awaitable[T]]) -> T:
        """Run a transaction that may change the schema, while nobody else is in one of these."""

        async def locked(tx: PostgresTx) -> T:
            await tx.script(
                "SET LOCAL lock_timeout = 0; SET LOCAL statement_timeout = 0; "
                f"SELECT pg_advisory_xact_lock({SCHEMA_LOCK})"
            )
            return await transaction(tx)

        return await self._write(locked)

    async def open(self, *, migrate: bool) -> None:
        """Once, by `open_postgres`."""
        try:
            with self._hold():
                connection = await self._pool.take()
                settings = connection.get_settings()
                check_server(connection.get_server_version().major, settings.server_encoding)
                self._pool.give(connection)
                self.applied = await (apply_migrations if migrate else check)(self, self._dialect)
                await self._listener.start()
        except CannotOpen as error:
            raise CannotOpen(f"{address(self._url)}: {error}") from error.__cause__
        except StoreError as error:
            raise CannotOpen(str(error)) from error.__cause__
        self._notifier.echoes = True
        for service in (self._listener.run(), self._notifier.run()):
            self._services.append(asyncio.get_running_loop().create_task(service))

    async def close(self) -> None:
        """Wait for what runs, at most `OUTCOME` seconds, and end all connections."""
        self._closed = True
        with anyio.CancelScope(shield=True):
            try:
                await self._settled()
                await self._say_goodbye()
            finally:
                self._hang_up()
                self._waits.close()

    async def _settled(self) -> None:
        try:
            async with asyncio.timeout(OUTCOME):
                while self._running:
                    await asyncio.wait(self._running)
                await self._notifier.flushed()
        except TimeoutError:
            self._hang_up()  # whoever waits for the server is told so
            if self._running:
                await asyncio.wait(self._running, timeout=GOODBYE)

    async def _say_goodbye(self) -> None:
        left = (*self._running, *self._services)
        for each in left:
            each.cancel()
        if left:
            await asyncio.wait(left, timeout=GOODBYE)
        self._deaf()
        with self._hold():
            goodbyes = [each.close(timeout=GOODBYE) for each in self._connections]
            await asyncio.gather(*goodbyes, return_exceptions=True)

    def _hang_up(self) -> None:
        for each in tuple(self._connections):
            each.terminate()

    def _check_open(self) -> None:
        if self._closed:
            raise Closed
        if asyncio.get_running_loop() is not self._loop:
            raise OtherLoop

    async def _connect(self, **settings: str) -> Connection:
        try:
            connection = await connect(self._url, **settings)
        except Exception as error:
            # An error about the URL may quote the password.
            cause = None if isinstance(error, ValueError) else error
            raise Unavailable(unreachable(error, self._url)) from cause
        self._connections.add(connection)
        connection.add_termination_listener(self._connections.discard)
        return connection

    async def _write(self, transaction: run.Function[T]) -> T:
        with self._hold():
            result, told = await run.lend(
                self._pool, lambda connection: run.write(connection, self._tx, transaction)
            )
        self._tell(told)
        return result

    def _tx(self, connection: Connection) -> PostgresTx:
        return PostgresTx(connection, self._dialect, self._now)

    def _read_tx(self, connection: Connection) -> ReadTx:
        return ReadTx(connection, self._dialect, self._now)

    async def _one_statement(self) -> OneStatement:
        return OneStatement(await self._committing.get(), self._dialect, self._now)

    def _start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """In a task that belongs to the database: whoever asked for it may be cancelled."""
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    def _tell(self, notices: Sequence[Notice]) -> None:
        if notices:
            self._notices.tell(notices)
            self._notifier.tell(notices)

    def _hear(self, channel: str, payload: str) -> None:
        said = heard(channel, payload)
        if said is None:
            return
        if said.sender == self._id:  # this process was told at once
            self._notifier.came_back(said.serial)
        else:
            self._notices.tell(said.notices)

    def _deaf(self) -> None:
        self._notifier.echoes = False
        self._notifier.land()

    def _hear_again(self) -> None:
        self._notifier.echoes = True
        self._notices.tell((Missed(),))


def _bound_now(dialect: Dialect) -> Dialect:
    """With a parameter for the database's clock, which the connection binds."""
    return msgspec.structs.replace(dialect, now="CAST(:now AS bigint)")
