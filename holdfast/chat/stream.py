"""The event stream of a chat, from any cursor.

The database is the truth; deltas only show an attempt in progress. A reader may disconnect at any
point and reconnect with the cursor of the last event that it received: it ends with exactly the
history that is in the database. Readers may rely on this:

- the chat is the first event of every connection, and is sent again on each change;
- the cursor of an event covers it and everything before it. The result of one query is sent as
  several events, and only the last of them advances the cursor. A reader that disconnects in
  between receives the same events again, and identifies messages by their numbers;
- deltas belong to the current attempt. Older ones are dropped; a newer one triggers a query first;
- the message that an attempt became is sent before the `Reset` of its fragments.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final, Literal, TypeAlias, Union

import anyio
from msgspec import Struct, structs

from holdfast.chat import queries
from holdfast.chat.base_event_iterator import EventIterator
from holdfast.chat.change_feed import Feed
from holdfast.chat.errors import ChatNotFound, InvalidInput
from holdfast.chat.queue import read_queue
from holdfast.chat.rows import ChatRow, Queued, Status, Stored, read_chat
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
from holdfast.live.delta_fragments import Fragment
from holdfast.store.database import Closed, Tx, Unavailable

LOG: Final = logging.getLogger("holdfast")
NEWEST_PAGE: Final = 100
"""Maximum number of messages that a new reader receives: the newest page of the history."""
MAX_CHANGED_MESSAGES: Final = 500
"""Maximum number of changed messages for a reconnecting reader; one that missed more receives the
newest page instead."""
MAX_RESULT_SIZE: Final = 1024 * 1024
"""Maximum total size of the messages of one query, except for a single larger one.

Counted in bytes for a page, in characters for changes. Each slow reader holds this much memory."""


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
    """The reader must discard fragments (`live`), or everything it has (`history`).

    After `history` the newest page follows.
    """

    cursor: Cursor
    what: Literal["live", "history"]
    more_before: int | None = None
    """Number of the first message that follows, if there are earlier ones; else None."""


StreamEvent: TypeAlias = Union[
    ChatChanged, MessageChanged, Superseded, QueueChanged, ActionsChanged, LiveDelta, Reset
]
"""Any event of the stream of a durable chat."""


class _QueryResult(Struct, frozen=True, kw_only=True):
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


class ChatEvents:
    """The events of a chat from one cursor on, taken as they become available.

    It queries on demand, and holds one result at most. Call `take`; call `look` when `wants_look`
    returns true; `when_roused` and `due` tell when to try again. So a caller can multiplex many of
    them, and one can serve many readers at the same position.
    """

    def __init__(self, feed: Feed, chat_id: str, after: Cursor | None = None) -> None:
        self._feed = feed
        self._id = chat_id
        self._announcements = feed.announcements(chat_id)
        self._ready: deque[StreamEvent] = deque()
        self._ended = False
        # The position of the reader.
        self._since = None if after is None else after.snapshot
        self._attempt: AttemptId | None = None
        self._seq = 0
        if after is not None and after.seq:
            self._attempt = AttemptId(after.epoch, after.history, after.attempt)
            self._seq = after.seq
        self._actions: tuple[Pending, ...] | None = () if after is None else None
        # The last query result.
        self._result: _QueryResult | None = None
        self._current_attempt: AttemptId | None = None
        """The current attempt of the chat, as of the last query."""
        self._context: tuple[int, int | None] = (-1, None)
        # When to query next.
        self._query_now = True
        self._losses_seen = self._announcements.losses
        self.due = 0.0
        """Time of the next query if no notice arrives, by the event loop's clock."""
        self._pending_deltas: list[DeltaRange] = []
        """Deltas that were received and not yet emitted."""
        self._ended_attempt: AttemptId | None = None
        """An attempt that ended and whose outcome is not yet known."""
        self._attempt_ended_at = 0.0
        self._discontinued = False
        """Whether the fragments that the reader has cannot be continued here."""
        self._was_void = False
        """Whether fragments were voided and no delta was emitted since."""
        self._reader: live.DeltaReader | None = None

    @property
    def ended(self) -> bool:
        """Whether no event follows those that `take` returns."""
        return self._ended

    @property
    def at_rest(self) -> bool:
        """Whether the chat was idle, in error or waiting for an action when last queried."""
        result = self._result
        return result is not None and at_rest(result.chat.status, result.actions)

    @property
    def cursor(self) -> Cursor:
        """Cursor of a reader that received everything so far."""
        if self._attempt is None:
            return Cursor(self._since or 0)
        attempt = self._attempt
        return Cursor(
            self._since or 0, attempt.epoch, attempt.history_version, attempt.attempt, self._seq
        )

    def take(self) -> Sequence[StreamEvent]:
        """Return all events that are available without a query."""
        if self._reader is not None and not self._ended:
            self._take_deliveries()
            self._emit_deltas()
        if not self._ready:
            return []
        events, self._ready = self._ready, deque()
        return events

    def wants_look(self, now: float) -> bool:
        """Return whether a query is due. `now` is the event loop's time."""
        return self._query_now or now >= self.due or self._is_outdated()

    async def look(self) -> None:
        """Query the database, after which `take` may return events. One call at a time."""
        if self._reader is None:
            self._begin()
        await self._query()

    def when_roused(self, call: Callable[[], None]) -> None:
        """Call `call` once, when a delta or a notice arrives. Only after the first query."""
        assert self._reader is not None
        self._reader.when_roused(call)

    async def roused(self) -> None:
        """Return when a delta or a notice arrives, or it is closed. Only after the first query."""
        assert self._reader is not None
        with suppress(anyio.ClosedResourceError):
            await self._reader.roused()

    def close(self) -> None:
        """Stop and release everything."""
        self._ready.clear()
        self._end()

    def _end(self) -> None:
        self._ended = True
        if self._reader is not None:
            self._reader.close()

    def joins(self, other: ChatEvents) -> bool:
        """Return whether the other stream may serve the readers of this one from now on.

        It may if both have emitted the same events.
        """
        if self._result is None or other._result is None or self._ready or other._ready:
            return False
        position, other_position = (self.cursor, self._actions), (other.cursor, other._actions)
        return position == other_position and self._result.chat == other._result.chat

    # --- queries ---

    def _begin(self) -> None:
        after = None if self._attempt is None else live.LiveCursor(self._attempt, self._seq)
        self._reader = self._feed.live.watch(self._id, after)
        # Emitted first when the cursor cannot be continued.
        self._take_deliveries()
        self._discontinued = after is not None and self._ended_attempt == after.attempt

    def _begin_again(self) -> None:
        """Read the running attempt from its start, because the reader's fragments are void."""
        assert self._reader is not None
        self._reader.close()
        self._attempt, self._seq, self._pending_deltas = None, 0, []
        self._begin()

    def _is_outdated(self) -> bool:
        return (
            self._announcements.version > (self._since or 0)
            or self._announcements.losses != self._losses_seen
        )

    def _take_deliveries(self) -> None:
        assert self._reader is not None
        for delivery in self._reader.take():
            if type(delivery) is DeltaRange:
                self._pending_deltas.append(delivery)
                if self._current_attempt is None or delivery.attempt > self._current_attempt:
                    self._query_now = True
            else:
                self._ended_attempt, self._attempt_ended_at = delivery.attempt, _loop_time()
                self._query_now = True

    async def _query(self) -> None:
        """Query the changes, and emit them."""
        losses, announced = self._announcements.losses, self._announcements.version
        try:
            result = await self._feed.db.read(self._read)
        except ChatNotFound:
            if self._result is None:
                raise
            self._end()
            return
        except Unavailable as error:
            if self._result is None or isinstance(error, Closed):
                raise
            LOG.warning("stream of chat %s: database unavailable, will retry: %s", self._id, error)
            await anyio.sleep(self._feed.poll)
            return
        if self._ended:  # closed during the query
            return
        self._query_now, self._losses_seen = False, losses
        self._announcements.correct(result.chat.snapshot_version, announced)
        self.due = _loop_time() + self._feed.poll
        if result.page and self._attempt is not None:
            self._begin_again()
        # Deltas of an attempt are emitted before its commit.
        self._take_deliveries()
        self._emit_deltas()
        self._emit_result(result)
        self._emit_deltas()

    # --- reading ---

    async def _read(self, tx: Tx) -> _QueryResult:
        if self._since is not None:
            changes = await queries.changes(
                tx, self._id, self._since, MAX_CHANGED_MESSAGES, MAX_RESULT_SIZE
            )
            if changes is not None and changes.chat.snapshot_version >= self._since:
                return _QueryResult(
                    chat=await self._snapshot(tx, changes.chat),
                    messages=changes.messages,
                    queue=changes.queue,
                    actions=tuple(map(pending, changes.actions)),
                )
        return await self._read_page(tx)

    async def _read_page(self, tx: Tx) -> _QueryResult:
        row = await read_chat(tx, self._id)
        newest, more = await queries.read_page(tx, self._id, NEWEST_PAGE, MAX_RESULT_SIZE)
        return _QueryResult(
            chat=await self._snapshot(tx, row),
            messages=newest,
            queue=tuple(await read_queue(tx, self._id)),
            actions=tuple(map(pending, await queries.read_actions(tx, self._id))),
            page=True,
            more_before=newest[0].number if more else None,
        )

    async def _snapshot(self, tx: Tx, row: ChatRow) -> Snapshot:
        version, context = self._context
        if version != row.history_version:
            context = await read_context(tx, self._id)
            self._context = (row.history_version, context)
        (snapshot,) = await snapshots(tx, [row], self._feed.stranded_limits)
        # Only where an attempt may have been interrupted: an ordinary step needs no extra query.
        partial = None
        if row.crashes > 0 or row.worker_id is None or self._result is None or self._was_void:
            partial = await read_interrupted(tx, row, self._feed.stranded_limits)
        return structs.replace(snapshot, context=context, partial=partial)

    # --- events ---

    def _emit_deltas(self) -> None:
        """Emit the deltas of the current attempt; keep those of a later one."""
        current, deltas = self._current_attempt, self._pending_deltas
        if current is None or not deltas:
            return
        self._pending_deltas = []
        for delta in deltas:
            if delta.attempt > current:
                self._pending_deltas.append(delta)
            elif delta.attempt == current:
                self._emit_delta(delta)

    def _emit_delta(self, delta: DeltaRange) -> None:
        attempt = self._attempt
        if attempt is not None and (delta.first != self._seq + 1 or delta.attempt != attempt):
            self._ready.append(self._void_deltas())
        self._attempt, self._seq, self._was_void = delta.attempt, delta.last, False
        self._ready.append(LiveDelta(self.cursor, delta.first, delta.last, delta.fragment))

    def _void_deltas(self) -> Reset:
        self._attempt, self._seq, self._ended_attempt, self._was_void = None, 0, None, True
        return Reset(self.cursor, "live")

    def _emit_result(self, result: _QueryResult) -> None:
        result_before, self._result = self._result, structs.replace(result, messages=())
        self._current_attempt = result.attempt
        events = list(self._events(result_before, result))
        self._since = result.chat.snapshot_version
        self._actions = result.actions
        if events:
            events[-1] = structs.replace(events[-1], cursor=self.cursor)
        self._ready.extend(events)

    def _events(
        self, result_before: _QueryResult | None, result: _QueryResult
    ) -> Iterator[StreamEvent]:
        """Yield the events of one query result, all with the cursor before that result."""
        if result_before is None:
            yield ChatChanged(self.cursor, result.chat)
        is_new_reader = self._since is None
        if result.page and not (is_new_reader and result.more_before is None):
            # Cursor zero: a reader that disconnects before the last event receives all of it again.
            self._since, self._actions = 0, ()
            yield Reset(self.cursor, "history", result.more_before)
        yield from self._rows(result, empty=result.page)
        if self._attempt is not None and self._is_void(self._attempt, result_before, result):
            yield self._void_deltas()
        if result_before is not None and result.chat != result_before.chat:
            yield ChatChanged(self.cursor, result.chat)

    def _rows(self, result: _QueryResult, empty: bool) -> Iterator[StreamEvent]:
        """Yield messages, queue and actions. `empty`: the reader has none of them yet."""
        superseded = tuple(s.number for s in result.messages if s.superseded_at is not None)
        if superseded:
            yield Superseded(self.cursor, superseded)
        for stored in result.messages:
            if stored.superseded_at is None:
                yield MessageChanged(self.cursor, stored)
        if result.queue is not None and (result.queue or not empty):
            yield QueueChanged(self.cursor, result.queue)
        actions = self._actions
        if actions is None:  # it is unknown what was sent before
            actions = result.actions if result.chat.snapshot_version == self._since else None
        if actions != result.actions:
            yield ActionsChanged(self.cursor, result.actions)

    def _is_void(
        self, attempt: AttemptId, result_before: _QueryResult | None, result: _QueryResult
    ) -> bool:
        """Return whether the fragments of this attempt are outdated."""
        if (
            attempt != result.attempt
            or not result.runs
            or (self._discontinued and result_before is None)
        ):
            return True
        # The attempt ended and its outcome is unknown: usually its commit is under way.
        deadline = self._attempt_ended_at + self._feed.poll
        return attempt == self._ended_attempt and _loop_time() >= deadline


class ChatStream(EventIterator[StreamEvent]):
    """An iterator over the events of a chat. It queries on demand, and holds one result at most.

    Without `follow` it ends once the chat is idle, in error or waiting for an action, and
    everything was emitted. It also ends when the chat is deleted. Close it with `aclose`, or use
    `async with`.
    """

    def __init__(
        self, feed: Feed, chat_id: str, after: Cursor | None = None, *, follow: bool = False
    ) -> None:
        super().__init__()
        self._events = ChatEvents(feed, chat_id, after)
        self._follow = follow

    @property
    def cursor(self) -> Cursor:
        """Cursor of a reader that received everything so far."""
        return self._events.cursor

    async def _advance(self) -> None:
        events = self._events
        if taken := events.take():
            self._ready.extend(taken)
        elif events.ended:
            self._end()
        elif events.wants_look(_loop_time()):
            await events.look()
        elif events.at_rest and not self._follow:
            self._end()
        else:
            with anyio.CancelScope(deadline=events.due):
                await events.roused()

    def _release(self) -> None:
        self._events.close()


def _loop_time() -> float:
    # Also called outside of any task, where anyio cannot find the event loop.
    return asyncio.get_running_loop().time()
