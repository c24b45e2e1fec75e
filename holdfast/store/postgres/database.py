"""PostgreSQL as a store: a pool, a committer, a notifier and a listener."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import anyio
import msgspec

from holdfast.kernel.ports import new_id
from holdfast.store.completion import Waits, outcome
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
    NotWritable,
    OtherLoop,
    StoreError,
    Transaction,
    Unavailable,
)
from holdfast.store.migrate import Script, check
from holdfast.store.migrate import migrate as apply_migrations
from holdfast.store.notices import Notices
from holdfast.store.postgres import run
from holdfast.store.postgres.connect import (
    TRANSACTION,
    address,
    check_server,
    configure,
    connect,
    may_pass,
    refused,
    unreachable,
)
from holdfast.store.postgres.errors import Lost
from holdfast.store.postgres.group_commit import Committer
from holdfast.store.postgres.listener import PROBE, Listener
from holdfast.store.postgres.notifier import Notifier, heard
from holdfast.store.postgres.notifier import probe as probe_of
from holdfast.store.postgres.pool import Line, Pool
from holdfast.store.postgres.pooler import begin, is_pooled
from holdfast.store.postgres.pooler import transaction as in_transaction
from holdfast.store.postgres.transaction import OneStatement, PooledStatement, PostgresTx, ReadTx
from holdfast.store.write_health import WriteHealth

if TYPE_CHECKING:
    from holdfast.store.postgres.connect import Connection

T = TypeVar("T")
A = TypeVar("A")

LOG: Final = logging.getLogger("holdfast")

NO_SETTINGS: Final[Mapping[str, str]] = {}
BY_KEY: Final = {"lock_timeout": "500ms", "enable_seqscan": "off"}
"""Settings of the committer, which finds a few rows by their keys. In a table of some hundred rows
the server would otherwise scan all of them."""
NOTIFYING: Final = {"synchronous_commit": "off"}
NOTIFY: Final = "SELECT pg_notify(c, t) FROM unnest($1::text[], $2::text[]) AS n (c, t)"
CONNECTIONS: Final = 13
"""Maximum number of connections of one process: the pool, committer, notifier and listener."""
ECHO_TRIES: Final = 20
ECHO_PAUSE: Final = 0.05
"""Seconds between two checks whether a test notification has come back."""
SCHEMA_LOCK: Final = 0x_686F_6C64_6661_7374
"""Advisory lock for schema changes: "holdfast" in ASCII."""
FIRST_WAIT: Final = 0.1
LONGEST_WAIT: Final = 2.0
"""Maximum seconds between two attempts to reach a server that is not up yet."""
GOODBYE: Final = 2.0
"""Seconds that the server may take to close a connection."""


@asynccontextmanager
async def open_postgres(
    url: str,
    *,
    now: Callable[[], int] | None = None,
    hold: Hold | None = None,
    migrate: bool = True,
    pool: int = 10,
    probe: float | None = PROBE,
    wait: float = 0.0,
    listen_url: str | None = None,
    new_id: Callable[[], str] = new_id,
) -> AsyncIterator[Postgres]:
    """Open a database on a PostgreSQL server until the end of the block. `CannotOpen` says what to
    do.

    now: a clock to use instead of the database's.
    migrate: bring the schema up to date; otherwise an outdated one is refused.
    pool: maximum number of connections for transactions. Three more serve other purposes.
    probe: seconds between two checks that the listening connection is alive; None: never.
    wait: seconds to wait for a server that cannot be reached yet, as while it restarts.
    listen_url: the same database without a pooler, for the listening connection.
    new_id: makes the id that tells the notifications of this process from those of others.
    """
    database = Postgres(
        url,
        now=now,
        hold=hold or nullcontext,
        pool=pool,
        probe=probe,
        listen_url=listen_url,
        id=new_id(),
    )
    try:
        await database.open(migrate=migrate, wait=wait)
        yield database
    finally:
        await database.close()


class Postgres:
    """A PostgreSQL database, opened by `open_postgres`. Belongs to the event loop that opened
    it."""

    exclusive: Final = False
    applied: Sequence[str] = ()
    """Names of the migrations that were applied when it was opened."""
    listens = True
    """Whether notices of other processes arrive. Otherwise their changes are found by polling."""
    _pooled: bool | None = None
    """Whether a pooler is used; None until the first connection was made."""
    _echoed = False
    """Whether the test notification has come back."""

    def __init__(
        self,
        url: str,
        *,
        now: Callable[[], int] | None,
        hold: Hold,
        pool: int,
        probe: float | None,
        listen_url: str | None,
        id: str,
    ) -> None:
        self._url = url
        self._listen_url = listen_url
        self._now = now
        self._dialect = POSTGRES if now is None else _bound_now(POSTGRES)
        self._hold = hold
        self._closed = False
        self._loop = asyncio.get_running_loop()
        self._waits = Waits(self._loop)
        self._health = WriteHealth(self._loop.time)
        self._id = id
        self._running: set[asyncio.Future[Any]] = set()
        self._services: list[asyncio.Task[None]] = []
        self._connections: set[Connection] = set()
        self._pool = Pool(self._connect, pool)
        self._committing = Line(partial(self._connect, BY_KEY))
        self._notifying = Line(partial(self._connect, NOTIFYING))
        self._committer = Committer(
            one_statement=self._one_statement,
            write=self._write,
            tell=self._tell,
            start=self._start,
            hold=hold,
        )
        self._notices = Notices()
        self._notifier = Notifier(self._id, self._notify, hold)
        self._listener = Listener(
            self._connect if listen_url is None else self._connect_listener,
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
        return await self._recorded(outcome(self._start(self._write(transaction))))

    async def write_together(self, bulk: Bulk[A, T], one: A) -> T:
        self._check_open()
        return await self._recorded(self._waits.answered(self._committer.submit(bulk, one)))

    async def _recorded(self, writing: Awaitable[T]) -> T:
        try:
            result = await writing
        except NotWritable as error:
            self._health.record(error)
            raise
        self._health.record(None)
        return result

    def check_writable(self) -> None:
        self._check_open()
        self._health.check()

    async def read(self, transaction: Transaction[T], *, short: bool = False) -> T:
        self._check_open()
        end = asyncio.get_running_loop().create_future()
        self._running.add(end)
        try:
            with self._hold():
                return await run.lend(
                    self._pool,
                    lambda connection: run.read(
                        connection, self._read_tx, transaction, self._begin(run.READ)
                    ),
                )
        finally:
            self._running.discard(end)
            end.cancel()

    def listen(self, hear: Callable[[Notice], None]) -> Callable[[], None]:
        return self._notices.listen(hear)

    async def change_schema(self, transaction: Callable[[Script], Awaitable[T]]) -> T:
        """Run a transaction that may change the schema, while no other process runs one of
        these."""

        async def locked(tx: PostgresTx) -> T:
            await tx.script(
                "SET LOCAL lock_timeout = 0; SET LOCAL statement_timeout = 0; "
                f"SELECT pg_advisory_xact_lock({SCHEMA_LOCK})"
            )
            return await transaction(tx)

        return await self._write(locked)

    async def open(self, *, migrate: bool, wait: float) -> None:
        """Connect and migrate. Called once, by `open_postgres`."""
        try:
            await self._ready(migrate, wait)
        except CannotOpen as error:
            raise CannotOpen(f"{address(self._url)}: {error}") from error.__cause__
        except StoreError as error:
            raise CannotOpen(str(error)) from error.__cause__
        self._notifier.echoes = self.listens
        services = [self._notifier.run(), *([self._listener.run()] if self.listens else [])]
        self._services = [self._loop.create_task(service) for service in services]

    async def _ready(self, migrate: bool, wait: float) -> None:
        """Connect and bring the schema up to date, retrying for up to `wait` seconds."""
        until, pause = self._loop.time() + wait, FIRST_WAIT
        while True:
            try:
                with self._hold():
                    await self._try_open(migrate)
                if self._pooled or self._listen_url is not None:
                    await self._probe_kinds()
                return
            except Lost as error:
                if self._loop.time() + pause > until:
                    raise
                if pause == FIRST_WAIT:
                    LOG.warning("waiting up to %g s for the database: %s", wait, error)
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_WAIT)

    async def _try_open(self, migrate: bool) -> None:
        connection = await self._pool.take()
        settings = connection.get_settings()
        check_server(connection.get_server_version().major, settings.server_encoding)
        self._pool.give(connection)
        self.applied = await (apply_migrations if migrate else check)(self, self._dialect)
        await self._listener.start()

    async def _probe_kinds(self) -> None:
        """Use each kind of connection once: through a pooler one may work and another wait."""
        with self._hold():
            try:
                await (await self._one_statement()).fetch("SELECT 1")
                await self._notify(*([each] for each in probe_of(self._id)))
            except Exception as error:
                raise CannotOpen(
                    f"not every connection that is needed works ({error}): through a pooler, allow "
                    f"{CONNECTIONS} connections or more for each process"
                ) from error
        self.listens = await self._is_echoed()
        if not self.listens:
            self._listener.stop()
            if self._listen_url is not None:
                raise CannotOpen(
                    "notifications do not arrive at listen_url: name the same database there, "
                    "directly and not through a pooler in transaction mode"
                )

    async def _is_echoed(self) -> bool:
        """Return whether the notification of `_probe_kinds` comes back to the listening
        connection."""
        for _ in range(ECHO_TRIES):
            with self._hold():
                await (
                    self._listener.ping()
                )  # the server sends pending notifications before it answers
            if self._echoed:
                return True
            await asyncio.sleep(ECHO_PAUSE)
        return False

    async def close(self) -> None:
        """Wait for running transactions, at most `OUTCOME` seconds, and close all connections."""
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
            self._hang_up()  # fails the transactions that still wait for the server
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

    async def _connect(self, settings: Mapping[str, str] = NO_SETTINGS) -> Connection:
        connection = await self._dialed(self._url, pooled=bool(self._pooled))
        try:
            if self._pooled is None:
                self._pooled = await is_pooled(connection)
                if self._pooled:  # this connection prepares statements
                    connection.terminate()
                    return await self._connect(settings)
            if not self._pooled:
                await configure(connection, settings)
        except StoreError:
            raise
        except Exception as error:
            raise refused(connection, error) from error
        return connection

    async def _connect_listener(self) -> Connection:
        assert self._listen_url is not None
        return await self._dialed(self._listen_url, pooled=True)

    async def _dialed(self, url: str, *, pooled: bool) -> Connection:
        try:
            return self._known(await connect(url, pooled=pooled))
        except Exception as error:
            # An error about the URL may quote the password.
            cause = None if isinstance(error, ValueError) else error
            kind = Lost if may_pass(error) else Unavailable
            raise kind(unreachable(error, url)) from cause

    def _known(self, connection: Connection) -> Connection:
        self._connections.add(connection)
        connection.add_termination_listener(self._connections.discard)
        return connection

    async def _write(self, transaction: run.Function[T]) -> T:
        with self._hold():
            result, told = await run.lend(
                self._pool,
                lambda connection: run.write(
                    connection, self._tx, transaction, self._begin(run.WRITE)
                ),
            )
        self._tell(told)
        return result

    def _tx(self, connection: Connection) -> PostgresTx:
        return PostgresTx(connection, self._dialect, self._now)

    def _read_tx(self, connection: Connection) -> ReadTx:
        return ReadTx(connection, self._dialect, self._now)

    def _begin(self, statement: str, settings: Mapping[str, str] = NO_SETTINGS) -> str:
        """Return the statement that begins a transaction."""
        if not self._pooled:
            return statement
        isolated = f"{statement} ISOLATION LEVEL READ COMMITTED"
        whole = isolated if statement == run.WRITE else statement
        return begin(whole, {**TRANSACTION, **settings})

    async def _one_statement(self) -> OneStatement:
        connection = await self._committing.get()
        if self._pooled:
            first = self._begin(run.WRITE, BY_KEY)
            return PooledStatement(connection, self._dialect, self._now, first)
        return OneStatement(connection, self._dialect, self._now)

    async def _notify(self, channels: Sequence[str], texts: Sequence[str]) -> None:
        connection = await self._notifying.get()
        if not self._pooled:
            await connection.execute(NOTIFY, channels, texts)
            return
        async with in_transaction(connection, self._begin(run.WRITE, NOTIFYING)):
            await connection.execute(NOTIFY, channels, texts)

    def _start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run in a task that belongs to the database: the caller may be cancelled."""
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
        if said.sender == self._id:  # this process was notified directly
            self._echoed = True
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
    """Return the dialect with a parameter for the database's clock, which the connection binds."""
    return msgspec.structs.replace(dialect, now="CAST(:now AS bigint)")
