"""Fan-out: serves all streams of a process, writing to all readers together, once per tick.

Readers at the same cursor of the same subject share one `StreamSource`: one query for each change,
one encoding of the events, and for each reader one write to its connection. No task is woken for
it. A new or reconnecting reader starts on its own source, at its cursor, and is merged into the
first source of the subject once both have sent the same events.

A reader whose connection is full is parked: it leaves its source with the cursor of what was last
written to it, and resumes from there when there is room again. So it costs its write buffer, and no
other reader waits for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, Protocol, TypeAlias

import anyio
from msgspec import Struct

from holdfast.chat.errors import ChatNotFound
from holdfast.kernel.errors import ConfigError
from holdfast.server.access_policy import ApiCaller
from holdfast.server.event_codec import (
    END_DELETED,
    END_FAILED,
    END_REVOKED,
    END_SHUTDOWN,
    END_SLOW,
    StreamEnd,
    WireEvent,
    wire_of,
)
from holdfast.server.problem import TooMany

LOG: Final = logging.getLogger("holdfast.server")
ROUND_INTERVAL: Final = 1.0
"""Seconds between two rounds over all readers, for heartbeats and permission checks."""
CHECK_TIMEOUT: Final = 10.0
"""Seconds that the permission check of one reader may take: the others wait for it."""
DRAIN_INTERVAL: Final = 0.05
"""Seconds between two checks whether a stalled connection has room again."""
MERGE_INTERVAL: Final = 0.1
"""Seconds between two attempts to merge two sources."""

EventEncoder: TypeAlias = Callable[[Sequence[WireEvent]], bytes]
"""Encodes events for a kind of connection."""
PermissionCheck: TypeAlias = Callable[[ApiCaller, str | None], Awaitable[bool]]
"""Checks whether a caller may still read a chat or, for None, anything at all."""

ExistenceCheck: TypeAlias = Callable[[str], Awaitable[bool]]
"""Checks whether a chat exists."""


class StreamOptions(Struct, frozen=True, kw_only=True):
    """How streams are served. Times are in seconds."""

    tick: float = 0.025
    """Each reader is written to at most once in this time, with everything since the last write."""
    buffer: int = 256 * 1024
    """Most unsent bytes of a connection: one that has more is not written to."""
    slow: float = 20.0
    """A reader that reads nothing for this long is told to reconnect, and disconnected."""
    heartbeat: float = 15.0
    """A stream without events sends a heartbeat this often."""
    recheck: float = 2.0
    """How often the permissions of readers are checked again."""
    per_user: int = 500
    """Most streams that one user, or all readers of one link, may have open here."""
    linger: float = 5.0
    """A connection that is still open this long after its `end` event is closed."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} of streams is {getattr(self, name)!r}: use more than 0")


class TooManyStreams(TooMany):
    """The caller has too many open streams."""

    kind = "too_many_streams"


class EventStream(Protocol):
    """Events of one subject from one cursor on: `ChatEvents` or a `ChatListStream`."""

    @property
    def due(self) -> float: ...
    @property
    def ended(self) -> bool: ...
    @property
    def cursor(self) -> Any: ...
    def wants_look(self, now: float) -> bool: ...
    def take(self) -> Sequence[Any]: ...
    async def look(self) -> None: ...
    def when_roused(self, call: Callable[[], None]) -> None: ...
    def joins(self, other: Any) -> bool: ...
    def close(self) -> None: ...


class StreamSubject(Struct, frozen=True):
    """What a reader watches: a chat, or a user's chat list."""

    name: str
    """Key of the subject: readers with the same name share sources."""
    open: Callable[[Any], EventStream]
    """Opens a stream after a cursor, or from the start for None."""
    chat: str | None = None
    """Id of the chat; None for a chat list."""


class ByteWriter(Protocol):
    """Where events are written to: a transport of asyncio, or a response of an ASGI server."""

    def write(self, data: bytes) -> None: ...
    def get_write_buffer_size(self) -> int: ...
    def is_closing(self) -> bool: ...
    def abort(self) -> None: ...


class ReaderConnection:
    """One connection that watches a subject."""

    __slots__ = (
        "beat", "caller", "cursor", "form", "over", "pong_at", "source", "subject", "transport",
    )  # fmt: skip

    def __init__(
        self,
        transport: ByteWriter,
        form: EventEncoder,
        beat: bytes,
        subject: StreamSubject,
        cursor: Any,
        caller: ApiCaller | None,
    ) -> None:
        self.transport = transport
        self.form = form
        self.beat = beat
        """The encoded heartbeat."""
        self.subject = subject
        self.cursor = cursor
        """Cursor of the reader, while it has no source."""
        self.caller = caller
        self.source: StreamSource | None = None
        self.pong_at: float | None = None
        """When the reader last answered a ping; None if its connection has no pings."""
        self.over: asyncio.Future[StreamEnd | None] = asyncio.get_running_loop().create_future()


class StreamSource:
    """A stream at one cursor, and the readers that share it."""

    __slots__ = (
        "armed", "cursor", "looking", "peers", "queried", "readers", "rouse", "stream", "subject",
        "timer", "wrote",
    )  # fmt: skip

    def __init__(
        self, subject: StreamSubject, cursor: Any, now: float, peers: list[StreamSource]
    ) -> None:
        self.subject = subject
        self.peers = peers
        """All sources of the same subject, including this one."""
        self.cursor = cursor
        """Cursor of what was last written to all readers here."""
        self.stream = subject.open(cursor)
        self.readers: dict[ReaderConnection, None] = {}
        self.queried = False
        """Whether the first query is done: until then readers at the same cursor may join."""
        self.looking = False
        self.armed = False
        self.timer: asyncio.TimerHandle | None = None
        self.wrote = now
        self.rouse: Callable[[], None] = lambda: None


class StallState(Struct):
    """State of a reader whose connection is full: bytes unsent, and since when unchanged."""

    size: int
    since: float


class Hub:
    """Serves all streams of a process. Everything here belongs to one event loop."""

    def __init__(
        self,
        options: StreamOptions = StreamOptions(),  # noqa: B008 - frozen
        still: PermissionCheck | None = None,
        there: ExistenceCheck | None = None,
    ) -> None:
        self._options = options
        self._still = still
        self._there = there
        self._sources: dict[str, list[StreamSource]] = {}
        self._stalled: dict[ReaderConnection, StallState] = {}
        self._dirty: dict[StreamSource, None] = {}
        self._open: Counter[str] = Counter()
        """Number of open streams by user."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._tick_timer: asyncio.TimerHandle | None = None
        self._round_timer: asyncio.TimerHandle | None = None
        self._drain_timer: asyncio.TimerHandle | None = None
        self._ticked = float("-inf")
        self._checked = 0.0
        self._checking = False
        self._closed = False

    # --- interface ---

    def __len__(self) -> int:
        """Number of readers."""
        return len(self._stalled) + sum(len(source.readers) for source in self._all_sources())

    @property
    def linger(self) -> float:
        """Seconds after which a connection that is still open after its `end` event is closed."""
        return self._options.linger

    @property
    def sources(self) -> int:
        """Number of sources."""
        return sum(map(len, self._sources.values()))

    @property
    def stalled(self) -> int:
        """Number of readers whose connection is full."""
        return len(self._stalled)

    @property
    def buffered(self) -> int:
        """Bytes written to connections and not yet sent."""
        return sum(reader.transport.get_write_buffer_size() for reader in self._readers())

    @contextmanager
    def admitted(self, user: str) -> Iterator[None]:
        """Count one more stream of this user while the block runs. Raises `TooManyStreams`."""
        limit = self._options.per_user
        if self._open[user] >= limit:
            raise TooManyStreams(
                f"you have {limit} open streams here: close some, or watch all your chats with one "
                "(GET /stream)",
                limit=limit,
            )
        self._open[user] += 1
        try:
            yield
        finally:
            self._open[user] -= 1
            if not self._open[user]:
                del self._open[user]

    async def serve(self, reader: ReaderConnection) -> StreamEnd | None:
        """Write to a reader until it disconnects (None) or its stream ends (the event sent)."""
        if self._closed:
            self._send_end(reader, END_SHUTDOWN)
        elif not reader.over.done():
            self._join_source(reader)
            self._begin_rounds()
        try:
            return await reader.over
        finally:
            self._leave(reader)

    def leave(self, reader: ReaderConnection) -> None:
        """Remove a reader whose connection has closed."""
        self._leave(reader)
        if not reader.over.done():
            reader.over.set_result(None)

    async def close(self) -> None:
        """Tell all readers to reconnect, elsewhere or later, and accept no more of them."""
        self._closed = True
        for reader in list(self._readers()):
            self._end(reader, END_SHUTDOWN)
        for timer in (self._tick_timer, self._round_timer, self._drain_timer):
            if timer is not None:
                timer.cancel()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a background task; it is cancelled when the hub is closed."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            LOG.error("a task of the stream server failed", exc_info=task.exception())

    # --- readers and sources ---

    def _all_sources(self) -> Iterator[StreamSource]:
        for sources in self._sources.values():
            yield from sources

    def _readers(self) -> Iterator[ReaderConnection]:
        yield from self._stalled
        for source in self._all_sources():
            yield from source.readers

    def _join_source(self, reader: ReaderConnection) -> None:
        """Add a reader to a new source at its cursor, or to one that was not queried yet."""
        sources = self._sources.setdefault(reader.subject.name, [])
        for source in sources:
            if not source.queried and source.cursor == reader.cursor:
                break
        else:
            source = StreamSource(reader.subject, reader.cursor, _now(), sources)
            source.rouse = partial(self._roused, source)
            sources.append(source)
            self._start_look(source)
        source.readers[reader] = None
        reader.source = source

    def _leave(self, reader: ReaderConnection) -> None:
        self._stalled.pop(reader, None)
        source, reader.source = reader.source, None
        if source is not None:
            source.readers.pop(reader, None)
            if not source.readers:
                self._drop(source)

    def _drop(self, source: StreamSource) -> None:
        source.stream.close()
        if source.timer is not None:
            source.timer.cancel()
        self._dirty.pop(source, None)
        if source in source.peers:
            source.peers.remove(source)
        if not source.peers:
            self._sources.pop(source.subject.name, None)

    def _end(self, reader: ReaderConnection, end: StreamEnd) -> None:
        self._leave(reader)
        if not reader.over.done():
            self._send_end(reader, end)

    def _send_end(self, reader: ReaderConnection, end: StreamEnd) -> None:
        transport = reader.transport
        if not transport.is_closing():
            transport.write(reader.form([wire_of(end)]))
            # A reader that does not read this event either loses its connection.
            _loop().call_later(self._options.linger, transport.abort)
        reader.over.set_result(end)

    # --- ticks ---

    def _roused(self, source: StreamSource) -> None:
        source.armed = False
        self._mark(source)

    def _mark(self, source: StreamSource) -> None:
        """Serve a source at the next tick."""
        self._dirty[source] = None
        if self._tick_timer is None and not self._closed:
            loop = _loop()
            self._tick_timer = loop.call_at(
                max(loop.time(), self._ticked + self._options.tick), self._tick
            )

    def _tick(self) -> None:
        now = _now()
        self._tick_timer, self._ticked = None, now
        dirty, self._dirty = self._dirty, {}
        for source in dirty:
            if source.readers:
                self._serve(source, now)
        if self._stalled:
            self._drain()

    def _serve(self, source: StreamSource, now: float) -> None:
        """Serve one source, so that an error in it affects no other."""
        try:
            self._pump(source, now)
        except Exception:
            LOG.exception("%s: sending events failed", source.subject.name)
            self._end_all(source, END_FAILED)

    def _pump(self, source: StreamSource, now: float) -> None:
        """Write pending events to the readers of a source, and arrange for the next ones."""
        stream = source.stream
        if events := stream.take():
            self._write(source, events, now)
        if stream.ended:
            self._end_all(source, END_DELETED)
            return
        if not source.looking:
            if stream.wants_look(now):
                self._start_look(source)
            elif source.peers[0] is not source and self._merge(source, now):
                return
            elif stream.due < now + ROUND_INTERVAL:
                self._pump_at(source, stream.due)
        if not source.armed and source.queried:
            source.armed = True
            stream.when_roused(source.rouse)

    def _pump_at(self, source: StreamSource, due: float) -> None:
        if source.timer is not None:
            if source.timer.when() <= due:
                return
            source.timer.cancel()
        source.timer = _loop().call_at(due, self._timed, source)

    def _timed(self, source: StreamSource) -> None:
        source.timer = None
        self._mark(source)

    def _write(self, source: StreamSource, events: Sequence[Any], now: float) -> None:
        room, full = self._options.buffer, []
        wires = [wire_of(event) for event in events]
        encoded: dict[EventEncoder, bytes] = {}
        for reader in source.readers:
            transport, form = reader.transport, reader.form
            if transport.get_write_buffer_size() > room or transport.is_closing():
                full.append(reader)
                continue
            data = encoded.get(form)
            if data is None:
                data = encoded[form] = form(wires)
            transport.write(data)
        for reader in full:
            self._stall(reader, source.cursor)
        source.cursor, source.wrote = events[-1].cursor, now

    def _merge(self, source: StreamSource, now: float) -> bool:
        """Merge a source into the first of its subject, if both have sent the same events."""
        first = source.peers[0]
        if not first.queried:
            return False
        if events := first.stream.take():
            self._write(first, events, now)
        if not first.readers or not source.stream.joins(first.stream):
            self._pump_at(source, now + MERGE_INTERVAL)
            return False
        for reader in source.readers:
            reader.source = first
        first.readers.update(source.readers)
        source.readers.clear()
        self._drop(source)
        self._mark(first)
        return True

    # --- queries ---

    def _start_look(self, source: StreamSource) -> None:
        source.looking = True
        self.spawn(self._look(source))

    async def _look(self, source: StreamSource) -> None:
        try:
            await source.stream.look()
        except ChatNotFound:
            self._end_all(source, END_DELETED)
        except Exception:
            LOG.exception("%s: reading changes failed", source.subject.name)
            self._end_all(source, END_FAILED)
        finally:
            source.looking = False
        if not source.readers:
            return
        if source.queried:
            self._mark(source)
        else:
            source.queried = True
            self._serve(source, _now())  # at once: a reader waits for the first page

    def _end_all(self, source: StreamSource, end: StreamEnd) -> None:
        for reader in list(source.readers):
            self._end(reader, end)

    # --- stalled readers ---

    def _stall(self, reader: ReaderConnection, cursor: Any) -> None:
        self._leave(reader)
        if reader.transport.is_closing():
            self.leave(reader)
            return
        reader.cursor = cursor
        self._stalled[reader] = StallState(reader.transport.get_write_buffer_size(), _now())
        self._drain_later()

    def _drain_later(self) -> None:
        if self._drain_timer is None:
            self._drain_timer = _loop().call_later(DRAIN_INTERVAL, self._drain_again)

    def _drain_again(self) -> None:
        self._drain_timer = None
        self._drain()
        if self._stalled:
            self._drain_later()

    def _drain(self) -> None:
        now = _now()
        for reader, stalled in list(self._stalled.items()):
            size = reader.transport.get_write_buffer_size()
            if reader.transport.is_closing():
                self.leave(reader)
            elif size <= self._options.buffer // 2:
                del self._stalled[reader]
                self._join_source(reader)
            elif size < stalled.size:
                stalled.size, stalled.since = size, now
            elif now - stalled.since >= self._options.slow:
                self._end(reader, END_SLOW)

    # --- rounds ---

    def _begin_rounds(self) -> None:
        if self._round_timer is None:
            self._checked = _now()
            self._round_timer = _loop().call_later(ROUND_INTERVAL, self._round)

    def _round(self) -> None:
        self._round_timer = None
        now = _now()
        for source in list(self._all_sources()):
            if source.stream.due <= now:
                self._mark(source)
            beat = now - source.wrote >= self._options.heartbeat
            if beat:
                source.wrote = now
            for reader in list(source.readers):
                self._visit(reader, beat, now)
        if self._still is not None and now - self._checked >= self._options.recheck:
            self._checked = now
            if not self._checking:
                self._checking = True
                self.spawn(self._recheck(self._still))
        if len(self):
            self._round_timer = _loop().call_later(ROUND_INTERVAL, self._round)

    def _visit(self, reader: ReaderConnection, beat: bool, now: float) -> None:
        silent = reader.pong_at is not None and now - reader.pong_at > 3 * self._options.heartbeat
        if silent:
            reader.transport.abort()
        if reader.transport.is_closing():
            self.leave(reader)
        elif beat:
            reader.transport.write(reader.beat)

    async def _recheck(self, still: PermissionCheck) -> None:
        """End the streams of callers who may not read any more."""
        readers_by_access: dict[tuple[ApiCaller, str | None], list[ReaderConnection]] = {}
        for reader in self._readers():
            if reader.caller is not None:
                readers_by_access.setdefault((reader.caller, reader.subject.chat), []).append(
                    reader
                )
        try:
            for (caller, chat), readers in readers_by_access.items():
                if end := await self._over(still, caller, chat):
                    for reader in readers:
                        self._end(reader, end)
        finally:
            self._checking = False

    async def _over(
        self, still: PermissionCheck, caller: ApiCaller, chat: str | None
    ) -> StreamEnd | None:
        """Why a caller's streams end; None if they may still read."""
        if await _may(still, caller, chat):
            return None
        # Deletion revokes access too, and the stream may not have been notified of it yet.
        if chat is None or self._there is None or await _is_there(self._there, chat):
            return END_REVOKED
        return END_DELETED


async def _may(still: PermissionCheck, caller: ApiCaller, chat: str | None) -> bool:
    try:
        with anyio.fail_after(CHECK_TIMEOUT):
            return await still(caller, chat)
    except Exception as error:
        LOG.warning("could not re-check a reader's permission; will retry (%r)", error)
        return True


async def _is_there(there: ExistenceCheck, chat: str) -> bool:
    try:
        return await there(chat)
    except Exception as error:
        LOG.warning("could not check whether chat %s still exists; will retry (%r)", chat, error)
        return True


def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


def _now() -> float:
    return asyncio.get_running_loop().time()
