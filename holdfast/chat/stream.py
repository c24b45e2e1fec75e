"""The event stream of a chat, from any cursor.

The database is the truth; deltas show what is happening. A reader may leave at any point and come
back with the cursor of the last event that it took: it ends with exactly the history that is in the
database. Readers may rely on this:

- the chat comes first on every connection, and again on each change;
- the cursor of an event covers it and everything before it. The result of one query is sent as
  several events, and only the last of them advances the cursor. A reader that leaves in between
  receives the same events again, and tells messages apart by their numbers;
- deltas belong to the current attempt. Older ones are dropped; a newer one triggers a query first;
- the message that an attempt became comes before the `Reset` of its fragments.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Final, Literal, TypeAlias, Union

import anyio
from msgspec import Struct, structs

from holdfast.chat import queries
from holdfast.chat.change_feed import Feed
from holdfast.chat.errors import ChatNotFound, InvalidInput
from holdfast.chat.queue import read_queue
from holdfast.chat.row_lock import read_chat
from holdfast.chat.rows import Chat, Queued, Status, Stored
from holdfast.chat.snapshots import (
    Pending,
    Snapshot,
    at_rest,
    pending,
    read_context,
    read_interrupted,
    snapshots,
)
from holdfast.kernel.messages import Tagged, Value
from holdfast.live import broadcast as live
from holdfast.live.buffer import AttemptId, DeltaRange
from holdfast.live.fragments import Fragment
from holdfast.store.database import Closed, Tx, Unavailable

LOG: Final = logging.getLogger("holdfast")
PAGE: Final = 100
"""Number of messages that a long chat opens with."""
MOST: Final = 500
"""Messages sent one by one to a returning reader; one that missed more gets the newest page."""
SIZE: Final = 1024 * 1024
"""Maximum size of the messages of one query, except the first: bytes of a page, characters of
changes. Every slow reader holds that much."""


class Cursor(Value, frozen=True):
    """The position of a reader. `str` formats it and `Cursor.parse` reads it back."""

    snapshot: int
    """Snapshot version of the chat."""
    epoch: int = 0
    """Epoch of the attempt whose fragments the reader has; 0 for none."""
    history: int = 0
    attempt: int = 0
    seq: int = 0
    """Sequence number of the last delta."""

    def __str__(self) -> str:
        return f"{self.snapshot}.{self.epoch}.{self.history}.{self.attempt}.{self.seq}"

    @classmethod
    def parse(cls, text: str) -> Cursor:
        """Parse a cursor. Raises `InvalidInput`."""
        pieces = text.split(".")
        if len(pieces) != 5 or not all(piece.isdecimal() and len(piece) < 19 for piece in pieces):
            raise InvalidInput(f"{text!r:.80} is not a cursor: use the cursor of an event, or none")
        return cls(*map(int, pieces))


class ChatChanged(Tagged, frozen=True, tag="chat"):
    """The chat itself changed: its status, title, error, versions."""

    cursor: Cursor
    chat: Snapshot


class MessageChanged(Tagged, frozen=True, tag="message"):
    """A message was committed."""

    cursor: Cursor
    message: Stored


class Superseded(Tagged, frozen=True, tag="superseded"):
    """Messages were superseded by an edit."""

    cursor: Cursor
    numbers: tuple[int, ...]


class QueueChanged(Tagged, frozen=True, tag="queue"):
    """The queue changed; carries the whole queue in order."""

    cursor: Cursor
    queue: tuple[Queued, ...]


class ActionsChanged(Tagged, frozen=True, tag="actions"):
    """The pending actions changed; carries all of them."""

    cursor: Cursor
    actions: tuple[Pending, ...]


class LiveDelta(Tagged, frozen=True, tag="delta"):
    """Deltas `first` to `last` of the running attempt. Shown, never stored."""

    cursor: Cursor
    first: int
    last: int
    fragment: Fragment


class Reset(Tagged, frozen=True, tag="reset"):
    """Void what the reader has. `live`: the fragments shown so far. `history`: everything; the
    newest page follows."""

    cursor: Cursor
    what: Literal["live", "history"]
    more_before: int | None = None
    """Number of the first message sent when there are earlier ones; else None."""


StreamEvent: TypeAlias = Union[
    ChatChanged, MessageChanged, Superseded, QueueChanged, ActionsChanged, LiveDelta, Reset
]
"""What the stream of a durable chat emits."""


class _Found(Struct, frozen=True, kw_only=True):
    """The result of one query."""

    chat: Snapshot
    messages: tuple[Stored, ...]
    queue: tuple[Queued, ...] | None
    """The queue; None when it did not change."""
    actions: tuple[Pending, ...]
    page: bool = False
    """Whether the messages are the newest page, independent of the reader's cursor."""
    more_before: int | None = None

    @property
    def attempt(self) -> AttemptId:
        return AttemptId(self.chat.epoch, self.chat.history_version, self.chat.attempt)

    @property
    def runs(self) -> bool:
        return self.chat.status in (Status.RUNNING, Status.INTERRUPTING)


class ChatStream:
    """An iterator over the events of a chat. It queries on demand, and holds one result at most.

    Without `follow` it ends once the chat is at rest and everything was emitted. It also ends when
    the chat is deleted. Close it with `aclose`, or use `async with`.

    A caller that multiplexes many streams does not iterate: it calls `take`, and `look` when
    `wants_look` says so, and is called back when there may be something (`when_roused`, and at
    `due`). One stream can then serve many readers at the same position.
    """

    def __init__(
        self, feed: Feed, chat_id: str, after: Cursor | None = None, *, follow: bool = False
    ) -> None:
        self._feed = feed
        self._id = chat_id
        self._follow = follow
        self._guard = anyio.ResourceGuard("reading from")
        self._news = feed.news(chat_id)
        self._ready: deque[StreamEvent] = deque()
        self._ended = False
        # What the reader has.
        self._since = None if after is None else after.snapshot
        self._shown: AttemptId | None = None
        self._seq = 0
        if after is not None and after.seq:
            self._shown = AttemptId(after.epoch, after.history, after.attempt)
            self._seq = after.seq
        self._actions: tuple[Pending, ...] | None = () if after is None else None
        # The last query result.
        self._found: _Found | None = None
        self._at: AttemptId | None = None
        """The current attempt of the chat."""
        self._context: tuple[int, int | None] = (-1, None)
        # What to query next.
        self._look_now = True
        self._missed = self._news.missed
        self.due = 0.0
        """Time of the next query if no notice arrives, by the event loop's clock."""
        self._held: list[DeltaRange] = []
        """Deltas received and not emitted yet."""
        self._over: AttemptId | None = None
        """An attempt that ended and whose outcome is not known yet."""
        self._over_since = 0.0
        self._lost = False
        """Whether the reader's fragments of an attempt cannot be continued here."""
        self._was_void = False
        """Whether fragments were voided and no attempt has emitted anything since."""
        self._reader: live.DeltaReader | None = None

    # --- what it gives ---

    def __aiter__(self) -> ChatStream:
        return self

    async def __anext__(self) -> StreamEvent:
        with self._guard:
            while not self._ready and not self._ended:
                await self._advance()
        if not self._ready:
            raise StopAsyncIteration
        return self._ready.popleft()

    async def __aenter__(self) -> ChatStream:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Stop and release everything."""
        self.close()

    def close(self) -> None:
        """Stop and release everything."""
        self._ready.clear()
        self._end()

    def _end(self) -> None:
        self._ended = True
        if self._reader is not None:
            self._reader.close()

    # --- what it gives to one who does not wait ---

    @property
    def ended(self) -> bool:
        """Whether nothing follows what can be taken."""
        return self._ended

    @property
    def cursor(self) -> Cursor:
        """Cursor of a reader that received everything so far."""
        return self._cursor

    def take(self) -> Sequence[StreamEvent]:
        """Return all events that are available without a query."""
        if self._reader is not None and not self._ended:
            self._take()
            self._show()
        if not self._ready:
            return []
        taken, self._ready = self._ready, deque()
        return taken

    def wants_look(self, now: float) -> bool:
        """Return whether a query is due. `now` is the event loop's time."""
        return self._look_now or now >= self.due or self._is_behind()

    async def look(self) -> None:
        """Query the database; more events may be available then. Raises what an iterator would."""
        with self._guard:
            if self._reader is None:
                self._begin()
            await self._look()

    def when_roused(self, call: Callable[[], None]) -> None:
        """Call back, once, when a delta or a notice arrives. Not before the first query."""
        assert self._reader is not None
        self._reader.when_roused(call)

    def joins(self, other: ChatStream) -> bool:
        """Return whether a reader of this stream may be served by the other from now on: both have
        emitted the same events."""
        if self._found is None or other._found is None or self._ready or other._ready:
            return False
        told, others = (self._cursor, self._actions), (other._cursor, other._actions)
        return told == others and self._found.chat == other._found.chat

    # --- looking ---

    async def _advance(self) -> None:
        """Find an event to emit, or wait until there may be one."""
        if self._reader is None:
            self._begin()
        else:
            self._take()
        self._show()
        if self._ready:
            return
        if self.wants_look(_now()):
            await self._look()
        elif self._may_end():
            self._end()
        else:
            await self._wait()

    def _begin(self) -> None:
        after = None if self._shown is None else live.LiveCursor(self._shown, self._seq)
        self._reader = self._feed.live.watch(self._id, after)
        # Emitted first when the cursor cannot be continued.
        self._take()
        self._lost = after is not None and self._over == after.attempt

    def _begin_anew(self) -> None:
        """Void what the reader has: it gets the running attempt from the start."""
        assert self._reader is not None
        self._reader.close()
        self._shown, self._seq, self._held = None, 0, []
        self._begin()

    def _is_behind(self) -> bool:
        return self._news.version > (self._since or 0) or self._news.missed != self._missed

    def _may_end(self) -> bool:
        if self._follow or self._found is None:
            return False
        return at_rest(self._found.chat.status, self._found.actions)

    def _take(self) -> None:
        assert self._reader is not None
        for delivery in self._reader.take():
            if type(delivery) is DeltaRange:
                self._held.append(delivery)
                if self._at is None or delivery.attempt > self._at:
                    self._look_now = True
            else:
                self._over, self._over_since = delivery.attempt, _now()
                self._look_now = True

    async def _look(self) -> None:
        """Query what changed, and emit it."""
        missed, heard = self._news.missed, self._news.version
        try:
            found = await self._feed.db.read(self._read)
        except ChatNotFound:
            if self._found is None:
                raise
            self._end()
            return
        except Unavailable as error:
            if self._found is None or isinstance(error, Closed):
                raise
            LOG.warning("stream of chat %s: database unavailable, will retry: %s", self._id, error)
            await anyio.sleep(self._feed.poll)
            return
        if self._ended:  # closed during the query
            return
        self._look_now, self._missed = False, missed
        self._news.found(found.chat.snapshot_version, heard)
        self.due = _now() + self._feed.poll
        if found.page and self._shown is not None:
            self._begin_anew()
        # Deltas of an attempt are emitted before its commit.
        self._take()
        self._show()
        self._give(found)
        self._show()

    async def _wait(self) -> None:
        """Wait for a delta, a notice, or the next query time."""
        assert self._reader is not None
        with anyio.CancelScope(deadline=self.due), suppress(anyio.ClosedResourceError):
            await self._reader.roused()

    # --- reading ---

    async def _read(self, tx: Tx) -> _Found:
        if self._since is not None:
            changed = await queries.changes(tx, self._id, self._since, MOST, SIZE)
            if changed is not None and changed.chat.snapshot_version >= self._since:
                return _Found(
                    chat=await self._snapshot(tx, changed.chat),
                    messages=changed.messages,
                    queue=changed.queue,
                    actions=tuple(map(pending, changed.actions)),
                )
        return await self._read_page(tx)

    async def _read_page(self, tx: Tx) -> _Found:
        row = await read_chat(tx, self._id)
        newest, more = await queries.read_page(tx, self._id, PAGE, SIZE)
        return _Found(
            chat=await self._snapshot(tx, row),
            messages=newest,
            queue=tuple(await read_queue(tx, self._id)),
            actions=tuple(map(pending, await queries.read_actions(tx, self._id))),
            page=True,
            more_before=newest[0].number if more else None,
        )

    async def _snapshot(self, tx: Tx, row: Chat) -> Snapshot:
        version, context = self._context
        if version != row.history_version:
            context = await read_context(tx, self._id)
            self._context = (row.history_version, context)
        (made,) = await snapshots(tx, [row], self._feed.watch)
        # Only after an attempt may have been cut off: an ordinary step costs no query.
        cut = row.crashes > 0 or row.worker_id is None or self._found is None or self._was_void
        partial = await read_interrupted(tx, row, self._feed.watch) if cut else None
        return structs.replace(made, context=context, partial=partial)

    # --- giving ---

    @property
    def _cursor(self) -> Cursor:
        if self._shown is None:
            return Cursor(self._since or 0)
        shown = self._shown
        return Cursor(
            self._since or 0, shown.epoch, shown.history_version, shown.attempt, self._seq
        )

    def _show(self) -> None:
        """Emit the deltas of the current attempt; keep those of a later one."""
        at, held = self._at, self._held
        if at is None or not held:
            return
        self._held = []
        for delta in held:
            if delta.attempt > at:
                self._held.append(delta)
            elif delta.attempt == at:
                self._show_one(delta)

    def _show_one(self, delta: DeltaRange) -> None:
        shown = self._shown
        if shown is not None and (delta.first != self._seq + 1 or delta.attempt != shown):
            self._ready.append(self._void())
        self._shown, self._seq, self._was_void = delta.attempt, delta.last, False
        self._ready.append(LiveDelta(self._cursor, delta.first, delta.last, delta.fragment))

    def _void(self) -> Reset:
        self._shown, self._seq, self._over, self._was_void = None, 0, None, True
        return Reset(self._cursor, "live")

    def _give(self, found: _Found) -> None:
        before, self._found = self._found, structs.replace(found, messages=())
        self._at = found.attempt
        events = list(self._events(before, found))
        self._since = found.chat.snapshot_version
        self._actions = found.actions
        if events:
            events[-1] = structs.replace(events[-1], cursor=self._cursor)
        self._ready.extend(events)

    def _events(self, before: _Found | None, found: _Found) -> Iterator[StreamEvent]:
        """Yield the events of one query result, all with the cursor from before it."""
        if before is None:
            yield ChatChanged(self._cursor, found.chat)
        fresh = self._since is None
        if found.page and not (fresh and found.more_before is None):
            # Cursor zero: a reader that leaves before the end of this gets all of it again.
            self._since, self._actions = 0, ()
            yield Reset(self._cursor, "history", found.more_before)
        yield from self._rows(found, empty=found.page)
        if self._shown is not None and self._is_void(self._shown, before, found):
            yield self._void()
        if before is not None and found.chat != before.chat:
            yield ChatChanged(self._cursor, found.chat)

    def _rows(self, found: _Found, empty: bool) -> Iterator[StreamEvent]:
        """Yield queue and actions. `empty`: the reader has nothing, so empty ones are not sent."""
        gone = tuple(s.number for s in found.messages if s.superseded_at is not None)
        if gone:
            yield Superseded(self._cursor, gone)
        for stored in found.messages:
            if stored.superseded_at is None:
                yield MessageChanged(self._cursor, stored)
        if found.queue is not None and (found.queue or not empty):
            yield QueueChanged(self._cursor, found.queue)
        actions = self._actions
        if actions is None:  # what was sent before is unknown
            actions = found.actions if found.chat.snapshot_version == self._since else None
        if actions != found.actions:
            yield ActionsChanged(self._cursor, found.actions)

    def _is_void(self, shown: AttemptId, before: _Found | None, found: _Found) -> bool:
        """Return whether the fragments of this attempt are out of date."""
        if shown != found.attempt or not found.runs or (self._lost and before is None):
            return True
        # The attempt ended and its outcome is unknown: usually its commit is under way.
        longest = self._over_since + self._feed.poll
        return shown == self._over and _now() >= longest


def _now() -> float:
    # Also called outside of any task, where anyio cannot find the event loop.
    return asyncio.get_running_loop().time()
