"""Everybody who watches something here, written to together, once a tick.

Who is at the same place of the same chat shares one `Source`: one look at the database for each
change, one encoding of what there is to say, and for each reader one write to its connection. No
task is woken for it. Who comes, or comes back, begins with a source of its own, at its cursor; as
soon as that has told what the chat's first source has told, the two become one.

A reader whose connection takes nothing is left alone: it leaves its source with the cursor of what
it was last written, and goes on from there when there is room again. So it costs its write buffer,
and nobody waits for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, Protocol, TypeAlias

from msgspec import Struct

from holdfast.chat.errors import ChatNotFound
from holdfast.kernel.errors import ConfigError
from holdfast.server.events import (
    DELETED,
    FAILED,
    REVOKED,
    SHUTDOWN,
    SLOW,
    End,
    Wire,
    wire_of,
)
from holdfast.server.policy import Caller
from holdfast.server.problem import TooMany

LOG: Final = logging.getLogger("holdfast.server")
ROUND: Final = 1.0
"""Seconds between two rounds of all readers, for what is not in a hurry."""
RETRY: Final = 0.05
"""Seconds between two looks at whether a connection takes something again."""
JOIN: Final = 0.1
"""Seconds until it is tried again whether two places are one by now."""

Form: TypeAlias = Callable[[Sequence[Wire]], bytes]
"""How events are written on a kind of connection."""
Still: TypeAlias = Callable[[Caller, str | None], Awaitable[bool]]
"""Whether a caller may still read a chat, or, without one, anything at all."""

There: TypeAlias = Callable[[str], Awaitable[bool]]
"""Whether there is this chat."""


class StreamOptions(Struct, frozen=True, kw_only=True):
    """How streams are served. Times are in seconds."""

    tick: float = 0.025
    """Each reader is written to once in this time, with everything since the last."""
    buffer: int = 256 * 1024
    """Bytes: a connection that holds more of what it was given is given nothing."""
    slow: float = 20.0
    """A reader that takes nothing for this long is told to come back, and cut."""
    heartbeat: float = 15.0
    recheck: float = 2.0
    """How often it is asked whether readers still may."""
    per_user: int = 500
    """Streams that one user, or whoever has a link, may have open here."""
    linger: float = 5.0
    """A connection that was told the end and is not closed after this is cut."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} of streams is {getattr(self, name)!r}: use more than 0")


class TooManyStreams(TooMany):
    kind = "too_many_streams"


class Stream(Protocol):
    """What is watched, from one place on: a `ChatStream`, a `Roster`."""

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


class Subject(Struct, frozen=True):
    """What a reader watches."""

    name: str
    """The same for all who watch the same."""
    open: Callable[[Any], Stream]
    """From a cursor on, or from None."""
    chat: str | None = None
    """The chat, when it is one."""


class Reader:
    """One connection that watches something."""

    __slots__ = (
        "beat", "caller", "cursor", "form", "heard", "over", "source", "subject", "transport",
    )  # fmt: skip

    def __init__(
        self,
        transport: asyncio.Transport,
        form: Form,
        beat: bytes,
        subject: Subject,
        cursor: Any,
        caller: Caller | None,
    ) -> None:
        self.transport = transport
        self.form = form
        self.beat = beat
        """What says that the server is still there."""
        self.subject = subject
        self.cursor = cursor
        """Where it is, while it has no source."""
        self.caller = caller
        self.source: Source | None = None
        self.heard: float | None = None
        """When it last answered, if it does at all."""
        self.over: asyncio.Future[End | None] = asyncio.get_running_loop().create_future()


class Source:
    """A place in what is watched, and everybody who is there."""

    __slots__ = (
        "armed", "cursor", "given", "looking", "peers", "readers", "rouse", "stream", "subject",
        "timer", "wrote",
    )  # fmt: skip

    def __init__(self, subject: Subject, cursor: Any, now: float, peers: list[Source]) -> None:
        self.subject = subject
        self.peers = peers
        """All places in the same: this one too."""
        self.cursor = cursor
        """Of what everybody here was last written."""
        self.stream = subject.open(cursor)
        self.readers: dict[Reader, None] = {}
        self.given = False
        """Whether it has begun to tell: until then others at the same cursor may enter."""
        self.looking = False
        self.armed = False
        self.timer: asyncio.TimerHandle | None = None
        self.wrote = now
        self.rouse: Callable[[], None] = lambda: None


class Stalled(Struct):
    """A reader that has no room, and since when it has taken nothing."""

    size: int
    since: float


class Hub:
    """Serves all streams of a process. Everything here belongs to one event loop."""

    def __init__(
        self,
        options: StreamOptions = StreamOptions(),  # noqa: B008 - frozen
        still: Still | None = None,
        there: There | None = None,
    ) -> None:
        self._options = options
        self._still = still
        self._there = there
        self._sources: dict[str, list[Source]] = {}
        self._stalled: dict[Reader, Stalled] = {}
        self._dirty: dict[Source, None] = {}
        self._open: Counter[str] = Counter()
        """Streams by user."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._tick_timer: asyncio.TimerHandle | None = None
        self._round_timer: asyncio.TimerHandle | None = None
        self._drain_timer: asyncio.TimerHandle | None = None
        self._ticked = float("-inf")
        self._checked = 0.0
        self._checking = False
        self._closed = False

    # --- from outside ---

    def __len__(self) -> int:
        """How many readers there are."""
        return len(self._stalled) + sum(len(source.readers) for source in self._all_sources())

    @property
    def sources(self) -> int:
        """How many places are looked from."""
        return sum(map(len, self._sources.values()))

    @property
    def stalled(self) -> int:
        """How many readers have no room."""
        return len(self._stalled)

    @property
    def buffered(self) -> int:
        """Bytes that connections hold and nobody has taken."""
        return sum(reader.transport.get_write_buffer_size() for reader in self._readers())

    @contextmanager
    def admitted(self, user: str) -> Iterator[None]:
        """One more stream of this user, for as long as the block lasts. Raises `TooManyStreams`."""
        limit = self._options.per_user
        if self._open[user] >= limit:
            raise TooManyStreams(
                f"{limit} streams of yours are open here: close some, or watch all your chats with "
                "one (GET /stream)",
                limit=limit,
            )
        self._open[user] += 1
        try:
            yield
        finally:
            self._open[user] -= 1
            if not self._open[user]:
                del self._open[user]

    async def serve(self, reader: Reader) -> End | None:
        """Write to a reader until it leaves, or it has to: what it was told then."""
        if self._closed:
            self._tell_end(reader, SHUTDOWN)
        elif not reader.over.done():
            self._place(reader)
            self._begin_rounds()
        try:
            return await reader.over
        finally:
            self._leave(reader)

    def leave(self, reader: Reader) -> None:
        """Its connection has come to an end."""
        self._leave(reader)
        if not reader.over.done():
            reader.over.set_result(None)

    async def close(self) -> None:
        """Tell everybody to come back, elsewhere or later, and serve nobody any more."""
        self._closed = True
        for reader in list(self._readers()):
            self._end(reader, SHUTDOWN)
        for timer in (self._tick_timer, self._round_timer, self._drain_timer):
            if timer is not None:
                timer.cancel()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Have something done beside the streams; it is ended with them."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            LOG.error("serving streams failed", exc_info=task.exception())

    # --- who is where ---

    def _all_sources(self) -> Iterator[Source]:
        for sources in self._sources.values():
            yield from sources

    def _readers(self) -> Iterator[Reader]:
        yield from self._stalled
        for source in self._all_sources():
            yield from source.readers

    def _place(self, reader: Reader) -> None:
        """Let a reader go on from its cursor."""
        sources = self._sources.setdefault(reader.subject.name, [])
        for source in sources:
            if not source.given and source.cursor == reader.cursor:
                break
        else:
            source = Source(reader.subject, reader.cursor, _now(), sources)
            source.rouse = partial(self._roused, source)
            sources.append(source)
            self._start_look(source)
        source.readers[reader] = None
        reader.source = source

    def _leave(self, reader: Reader) -> None:
        self._stalled.pop(reader, None)
        source, reader.source = reader.source, None
        if source is not None:
            source.readers.pop(reader, None)
            if not source.readers:
                self._drop(source)

    def _drop(self, source: Source) -> None:
        source.stream.close()
        if source.timer is not None:
            source.timer.cancel()
        self._dirty.pop(source, None)
        if source in source.peers:
            source.peers.remove(source)
        if not source.peers:
            self._sources.pop(source.subject.name, None)

    def _end(self, reader: Reader, end: End) -> None:
        self._leave(reader)
        if not reader.over.done():
            self._tell_end(reader, end)

    def _tell_end(self, reader: Reader, end: End) -> None:
        transport = reader.transport
        if not transport.is_closing():
            transport.write(reader.form([wire_of(end)]))
            # Whoever does not take this either may not keep the connection.
            _loop().call_later(self._options.linger, transport.abort)
        reader.over.set_result(end)

    # --- ticks ---

    def _roused(self, source: Source) -> None:
        source.armed = False
        self._mark(source)

    def _mark(self, source: Source) -> None:
        """There may be something new at this place."""
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

    def _serve(self, source: Source, now: float) -> None:
        """What goes wrong with one place is nobody else's trouble."""
        try:
            self._pump(source, now)
        except Exception:
            LOG.exception("%s cannot be told", source.subject.name)
            self._end_all(source, FAILED)

    def _pump(self, source: Source, now: float) -> None:
        """Write what there is to everybody at a place, and see to it that there will be more."""
        stream = source.stream
        if events := stream.take():
            self._write(source, events, now)
        if stream.ended:
            self._end_all(source, DELETED)
            return
        if not source.looking:
            if stream.wants_look(now):
                self._start_look(source)
            elif source.peers[0] is not source and self._merge(source, now):
                return
            elif stream.due < now + ROUND:
                self._pump_at(source, stream.due)
        if not source.armed and source.given:
            source.armed = True
            stream.when_roused(source.rouse)

    def _pump_at(self, source: Source, due: float) -> None:
        if source.timer is not None:
            if source.timer.when() <= due:
                return
            source.timer.cancel()
        source.timer = _loop().call_at(due, self._timed, source)

    def _timed(self, source: Source) -> None:
        source.timer = None
        self._mark(source)

    def _write(self, source: Source, events: Sequence[Any], now: float) -> None:
        room, behind = self._options.buffer, []
        wires = [wire_of(event) for event in events]
        encoded: dict[Form, bytes] = {}
        for reader in source.readers:
            transport, form = reader.transport, reader.form
            if transport.get_write_buffer_size() > room or transport.is_closing():
                behind.append(reader)
                continue
            data = encoded.get(form)
            if data is None:
                data = encoded[form] = form(wires)
            transport.write(data)
        for reader in behind:
            self._stall(reader, source.cursor)
        source.cursor, source.wrote = events[-1].cursor, now

    def _merge(self, source: Source, now: float) -> bool:
        """Have this place's readers join the first who watch the same, if they are as far."""
        first = source.peers[0]
        if not first.given:
            return False
        if events := first.stream.take():
            self._write(first, events, now)
        if not first.readers or not source.stream.joins(first.stream):
            self._pump_at(source, now + JOIN)
            return False
        for reader in source.readers:
            reader.source = first
        first.readers.update(source.readers)
        source.readers.clear()
        self._drop(source)
        self._mark(first)
        return True

    # --- looks ---

    def _start_look(self, source: Source) -> None:
        source.looking = True
        self.spawn(self._look(source))

    async def _look(self, source: Source) -> None:
        try:
            await source.stream.look()
        except ChatNotFound:
            self._end_all(source, DELETED)
        except Exception:
            LOG.exception("%s cannot be watched", source.subject.name)
            self._end_all(source, FAILED)
        finally:
            source.looking = False
        if not source.readers:
            return
        if source.given:
            self._mark(source)
        else:
            source.given = True
            self._serve(source, _now())  # at once: somebody waits for the first page

    def _end_all(self, source: Source, end: End) -> None:
        for reader in list(source.readers):
            self._end(reader, end)

    # --- who has no room ---

    def _stall(self, reader: Reader, cursor: Any) -> None:
        self._leave(reader)
        if reader.transport.is_closing():
            self.leave(reader)
            return
        reader.cursor = cursor
        self._stalled[reader] = Stalled(reader.transport.get_write_buffer_size(), _now())
        self._drain_later()

    def _drain_later(self) -> None:
        if self._drain_timer is None:
            self._drain_timer = _loop().call_later(RETRY, self._drain_again)

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
                self._place(reader)
            elif size < stalled.size:
                stalled.size, stalled.since = size, now
            elif now - stalled.since >= self._options.slow:
                self._end(reader, SLOW)

    # --- rounds ---

    def _begin_rounds(self) -> None:
        if self._round_timer is None:
            self._checked = _now()
            self._round_timer = _loop().call_later(ROUND, self._round)

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
            self._round_timer = _loop().call_later(ROUND, self._round)

    def _visit(self, reader: Reader, beat: bool, now: float) -> None:
        silent = reader.heard is not None and now - reader.heard > 3 * self._options.heartbeat
        if silent:
            reader.transport.abort()
        if reader.transport.is_closing():
            self.leave(reader)
        elif beat:
            reader.transport.write(reader.beat)

    async def _recheck(self, still: Still) -> None:
        """End the streams of everybody who may not read any more."""
        asked: dict[tuple[Caller, str | None], list[Reader]] = {}
        for reader in self._readers():
            if reader.caller is not None:
                asked.setdefault((reader.caller, reader.subject.chat), []).append(reader)
        try:
            for (caller, chat), readers in asked.items():
                if end := await self._over(still, caller, chat):
                    for reader in readers:
                        self._end(reader, end)
        finally:
            self._checking = False

    async def _over(self, still: Still, caller: Caller, chat: str | None) -> End | None:
        """Why a caller may not read any more; None when they may."""
        if await _may(still, caller, chat):
            return None
        # Nobody may read a chat that was deleted, and its stream may not have heard of it yet.
        if chat is None or self._there is None or await _is_there(self._there, chat):
            return REVOKED
        return DELETED


async def _may(still: Still, caller: Caller, chat: str | None) -> bool:
    try:
        return await still(caller, chat)
    except Exception as error:
        LOG.warning("nobody knows whether a reader still may: asked again (%r)", error)
        return True


async def _is_there(there: There, chat: str) -> bool:
    try:
        return await there(chat)
    except Exception as error:
        LOG.warning("nobody knows whether chat %s was deleted: taken for there (%r)", chat, error)
        return True


def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


def _now() -> float:
    return asyncio.get_running_loop().time()
