"""PostgreSQL as a store: a pool, a committer, a notifier and a listener."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import anyio
import msgspec

from holdfast.kernel.ports import new_id
from holdfast.store.database import (
    OUTCOME_TIMEOUT,
    POSTGRES,
    Bulk,
    CannotOpen,
    ChangeNotice,
    Closed,
    Dialect,
    NoticesLost,
    NotWritable,
    OtherLoop,
    StoreError,
    Transaction,
    Unavailable,
)
from holdfast.store.migrate import SchemaTx, check
from holdfast.store.migrate import migrate as apply_migrations
from holdfast.store.notice_listeners import NoticeListeners
from holdfast.store.postgres import run
from holdfast.store.postgres.connect import (
    TRANSACTION_SETTINGS,
    address,
    check_server,
    configure,
    connect,
    explain_connect_error,
    is_temporary,
    statement_error,
)
from holdfast.store.postgres.errors import LostConnection
from holdfast.store.postgres.group_commit import Committer
from holdfast.store.postgres.listener import PROBE_INTERVAL, Listener
from holdfast.store.postgres.notification_sender import Notifier, parse_notification
from holdfast.store.postgres.notification_sender import echo_test as echo_test
from holdfast.store.postgres.pool import ConnectionPool, DedicatedConnection
from holdfast.store.postgres.pooler import begin, is_pooled
from holdfast.store.postgres.pooler import transaction as pooled_transaction
from holdfast.store.postgres.transaction import (
    OneStatement,
    PooledStatement,
    PostgresReadTx,
    PostgresTx,
)
from holdfast.store.transaction_outcome import Waits, wait_for
from holdfast.store.write_health import WriteHealth

if TYPE_CHECKING:
    from holdfast.store.postgres.connect import Connection

T = TypeVar("T")
A = TypeVar("A")

LOG: Final = logging.getLogger("holdfast")

NO_SETTINGS: Final[Mapping[str, str]] = {}
COMMITTER_SETTINGS: Final = {"lock_timeout": "500ms", "enable_seqscan": "off"}
"""Settings of the committer's connection. It finds a few rows by their keys, for which the server
would otherwise scan a table of some hundred rows."""
NOTIFIER_SETTINGS: Final = {"synchronous_commit": "off"}
SEND_NOTIFICATIONS: Final = "SELECT pg_notify(c, t) FROM unnest($1::text[], $2::text[]) AS n (c, t)"
MAX_CONNECTIONS: Final = 13
"""Maximum number of connections of one process: pool, committer, notifier and listener."""
ECHO_TRIES: Final = 20
ECHO_PAUSE: Final = 0.05
"""Seconds between two checks whether the test notification was received."""
SCHEMA_LOCK: Final = 0x_686F_6C64_6661_7374
"""Advisory lock for schema changes: "holdfast" in ASCII."""
FIRST_RETRY_DELAY: Final = 0.1
LONGEST_RETRY_DELAY: Final = 2.0
"""Maximum seconds between two attempts to reach a server that is not up yet."""
CLOSE_TIMEOUT: Final = 2.0
"""Seconds that the server may take to close a connection."""


@asynccontextmanager
async def open_postgres(
    url: str,
    *,
    now: Callable[[], int] | None = None,
    migrate: bool = True,
    pool: int = 10,
    probe: float | None = PROBE_INTERVAL,
    wait: float = 0.0,
    listen_url: str | None = None,
    new_id: Callable[[], str] = new_id,
) -> AsyncIterator[Postgres]:
    """Open a database on a PostgreSQL server until the end of the block. Raises `CannotOpen`.

    now: a clock to use instead of the database's.
    migrate: bring the schema up to date; otherwise an outdated one is refused.
    pool: maximum number of connections for transactions. Three more serve other purposes.
    probe: seconds between two checks that the listening connection is alive; None: never.
    wait: seconds to wait for a server that cannot be reached yet, as while it restarts.
    listen_url: the same database without a pooler, for the listening connection.
    new_id: creates the id that marks notifications of this process.
    """
    database = Postgres(
        url,
        now=now,
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
    """A PostgreSQL database, opened by `open_postgres` and bound to the event loop that did."""

    exclusive: Final = False
    applied: Sequence[str] = ()
    """Names of the migrations that were applied when it was opened."""
    listens = True
    """Whether notices of other processes arrive. Otherwise their changes are found by polling."""
    _pooled: bool | None = None
    """Whether a pooler is used; None until the first connection was made."""
    _echoed = False
    """Whether the test notification was received."""

    def __init__(
        self,
        url: str,
        *,
        now: Callable[[], int] | None,
        pool: int,
        probe: float | None,
        listen_url: str | None,
        id: str,
    ) -> None:
        self._url = url
        self._listen_url = listen_url
        self._now = now
        self._dialect = POSTGRES if now is None else _bound_now(POSTGRES)
        self._closed = False
        self._loop = asyncio.get_running_loop()
        self._waits = Waits(self._loop)
        self._health = WriteHealth(self._loop.time)
        self._id = id
        self._running: set[asyncio.Future[Any]] = set()
        self._services: list[asyncio.Task[None]] = []
        self._connections: set[Connection] = set()
        self._pool = ConnectionPool(self._connect, pool)
        self._commit_connection = DedicatedConnection(partial(self._connect, COMMITTER_SETTINGS))
        self._notify_connection = DedicatedConnection(partial(self._connect, NOTIFIER_SETTINGS))
        self._committer = Committer(
            one_statement=self._one_statement,
            write=self._write,
            distribute=self._distribute,
            start=self._start,
        )
        self._notices = NoticeListeners()
        self._notifier = Notifier(self._id, self._notify)
        self._listener = Listener(
            self._connect if listen_url is None else self._connect_listener,
            on_notification=self._on_notification,
            on_resumed=self._on_listener_resumed,
            probe=probe,
        )

    @property
    def dialect(self) -> Dialect:
        return self._dialect

    async def write(self, transaction: Transaction[T], *, short: bool = False) -> T:
        self._check_open()
        return await self._record_health(wait_for(self._start(self._write(transaction))))

    async def write_together(self, bulk: Bulk[A, T], item: A) -> T:
        self._check_open()
        return await self._record_health(self._waits.wait(self._committer.submit(bulk, item)))

    async def _record_health(self, writing: Awaitable[T]) -> T:
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
            return await run.with_connection(
                self._pool,
                lambda connection: run.read(
                    connection, self._read_tx, transaction, self._begin(run.READ)
                ),
            )
        finally:
            self._running.discard(end)
            end.cancel()

    def listen(self, receive: Callable[[ChangeNotice], None]) -> Callable[[], None]:
        return self._notices.listen(receive)

    async def change_schema(self, transaction: Callable[[SchemaTx], Awaitable[T]]) -> T:
        """Run a transaction that may change the schema, while no other process runs one."""

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
            await self._connect_and_migrate(migrate, wait)
        except CannotOpen as error:
            raise CannotOpen(f"{address(self._url)}: {error}") from error.__cause__
        except StoreError as error:
            raise CannotOpen(str(error)) from error.__cause__
        services = [self._notifier.run(), *([self._listener.run()] if self.listens else [])]
        self._services = [self._loop.create_task(service) for service in services]

    async def _connect_and_migrate(self, migrate: bool, wait: float) -> None:
        """Connect and bring the schema up to date, retrying for up to `wait` seconds."""
        deadline, delay = self._loop.time() + wait, FIRST_RETRY_DELAY
        while True:
            try:
                await self._try_open(migrate)
                if self._pooled or self._listen_url is not None:
                    await self._probe_kinds()
                return
            except LostConnection as error:
                if self._loop.time() + delay > deadline:
                    raise
                if delay == FIRST_RETRY_DELAY:
                    LOG.warning("waiting up to %g s for the database: %s", wait, error)
            await asyncio.sleep(delay)
            delay = min(2 * delay, LONGEST_RETRY_DELAY)

    async def _try_open(self, migrate: bool) -> None:
        connection = await self._pool.take()
        settings = connection.get_settings()
        check_server(connection.get_server_version().major, settings.server_encoding)
        self._pool.give(connection)
        self.applied = await (apply_migrations if migrate else check)(self, self._dialect)
        await self._listener.start()

    async def _probe_kinds(self) -> None:
        """Use each kind of connection once: a pooler may serve one and let another wait."""
        try:
            await (await self._one_statement()).fetch("SELECT 1")
            await self._notify(*([each] for each in echo_test(self._id)))
        except Exception as error:
            raise CannotOpen(
                f"not every connection that is needed works ({error}): through a pooler, allow "
                f"{MAX_CONNECTIONS} connections or more for each process"
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
        """Return whether the listening connection receives the notification of `_probe_kinds`."""
        for _ in range(ECHO_TRIES):
            await self._listener.ping()  # the server sends pending notifications before it answers
            if self._echoed:
                return True
            await asyncio.sleep(ECHO_PAUSE)
        return False

    async def close(self) -> None:
        """Wait for running transactions, at most `OUTCOME_TIMEOUT` seconds, and close."""
        self._closed = True
        with anyio.CancelScope(shield=True):
            try:
                await self._wait_for_running()
                await self._close_connections()
            finally:
                self._terminate_connections()
                self._waits.close()

    async def _wait_for_running(self) -> None:
        try:
            async with asyncio.timeout(OUTCOME_TIMEOUT):
                while self._running:
                    await asyncio.wait(self._running)
                await self._notifier.flushed()
        except TimeoutError:
            self._terminate_connections()  # fails the transactions that still wait for the server
            if self._running:
                await asyncio.wait(self._running, timeout=CLOSE_TIMEOUT)

    async def _close_connections(self) -> None:
        tasks = (*self._running, *self._services)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=CLOSE_TIMEOUT)
        closing = [task.close(timeout=CLOSE_TIMEOUT) for task in self._connections]
        await asyncio.gather(*closing, return_exceptions=True)

    def _terminate_connections(self) -> None:
        for connection in tuple(self._connections):
            connection.terminate()

    def _check_open(self) -> None:
        if self._closed:
            raise Closed
        if asyncio.get_running_loop() is not self._loop:
            raise OtherLoop

    async def _connect(self, settings: Mapping[str, str] = NO_SETTINGS) -> Connection:
        connection = await self._open_connection(self._url, pooled=bool(self._pooled))
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
            raise statement_error(connection, error) from error
        return connection

    async def _connect_listener(self) -> Connection:
        assert self._listen_url is not None
        return await self._open_connection(self._listen_url, pooled=True)

    async def _open_connection(self, url: str, *, pooled: bool) -> Connection:
        try:
            return self._track(await connect(url, pooled=pooled))
        except Exception as error:
            # An error about the URL may quote the password.
            cause = None if isinstance(error, ValueError) else error
            kind = LostConnection if is_temporary(error) else Unavailable
            raise kind(explain_connect_error(error, url)) from cause

    def _track(self, connection: Connection) -> Connection:
        self._connections.add(connection)
        connection.add_termination_listener(self._connections.discard)
        return connection

    async def _write(self, transaction: run.TransactionFunction[T]) -> T:
        result, notices = await run.with_connection(
            self._pool,
            lambda connection: run.write(connection, self._tx, transaction, self._begin(run.WRITE)),
        )
        self._distribute(notices)
        return result

    def _tx(self, connection: Connection) -> PostgresTx:
        return PostgresTx(connection, self._dialect, self._now)

    def _read_tx(self, connection: Connection) -> PostgresReadTx:
        return PostgresReadTx(connection, self._dialect, self._now)

    def _begin(self, statement: str, settings: Mapping[str, str] = NO_SETTINGS) -> str:
        """Return the statement that begins a transaction."""
        if not self._pooled:
            return statement
        with_level = f"{statement} ISOLATION LEVEL READ COMMITTED"
        full_statement = with_level if statement == run.WRITE else statement
        return begin(full_statement, {**TRANSACTION_SETTINGS, **settings})

    async def _one_statement(self) -> OneStatement:
        connection = await self._commit_connection.get()
        if self._pooled:
            begin_statement = self._begin(run.WRITE, COMMITTER_SETTINGS)
            return PooledStatement(connection, self._dialect, self._now, begin_statement)
        return OneStatement(connection, self._dialect, self._now)

    async def _notify(self, channels: Sequence[str], texts: Sequence[str]) -> None:
        connection = await self._notify_connection.get()
        if not self._pooled:
            await connection.execute(SEND_NOTIFICATIONS, channels, texts)
            return
        async with pooled_transaction(connection, self._begin(run.WRITE, NOTIFIER_SETTINGS)):
            await connection.execute(SEND_NOTIFICATIONS, channels, texts)

    def _start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run a coroutine in a task of the database, because its caller may be cancelled."""
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    def _distribute(self, notices: Sequence[ChangeNotice]) -> None:
        if notices:
            self._notices.notify(notices)
            self._notifier.send_soon(notices)

    def _on_notification(self, channel: str, payload: str) -> None:
        notification = parse_notification(channel, payload)
        if notification is None:
            return
        if notification.sender == self._id:  # this process was notified directly
            self._echoed = True
        else:
            self._notices.notify(notification.notices)

    def _on_listener_resumed(self) -> None:
        self._notices.notify((NoticesLost(),))


def _bound_now(dialect: Dialect) -> Dialect:
    """Return the dialect with `:now` instead of the database's clock; the connection binds it."""
    return msgspec.structs.replace(dialect, now="CAST(:now AS bigint)")
