"""The stream of a user's chat list: their chats and those shared with them, as they change.

All readers of one user share it. A cursor is the database's time at a query. A reconnecting reader
receives every chat that changed since its cursor less a minute, because a transaction may take a
while to commit: so a chat can be sent twice, and the reader drops what is older than what it has
(`snapshot_version`).
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias, Union

import anyio
from msgspec import Struct, structs

from holdfast.chat.change_feed import Feed
from holdfast.chat.database_clock import QUERY_OVERLAP, now_of
from holdfast.chat.deleted_or_unshared import lost_since, readers_of_deleted
from holdfast.chat.errors import InvalidInput
from holdfast.chat.listing import ReaderChat, for_reader, read_openings
from holdfast.chat.read_marks import marked_since, read_marks, shared_with
from holdfast.chat.rows import SELECT_CHAT, ChatRow, chat_of
from holdfast.chat.snapshots import StrandedLimits, snapshots
from holdfast.store.database import (
    Changed,
    ChangeNotice,
    Claimable,
    Closed,
    NoticesLost,
    Row,
    Tx,
    Unavailable,
)

LOG: Final = logging.getLogger("holdfast.server")
SpawnTask: TypeAlias = Callable[[Coroutine[Any, Any, None]], None]
"""Starts a background task that is cancelled when the streams are closed."""
MAX_CHATS_SENT: Final = 500
"""Most chats sent one by one to a reconnecting reader; beyond that it has to read the list."""
QUERY_INTERVAL: Final = 0.2
"""Seconds between two queries: a running chat changes with each of its steps."""
PAUSE_FACTOR: Final = 20
"""Ratio of the pause after a full query, which reads all chats of a user, to its duration."""
MAX_PAUSE: Final = 30.0
"""Longest such pause in seconds; less than `QUERY_OVERLAP`."""
MAX_CACHED_OWNERS: Final = 10_000
"""Most chats whose owner is cached."""


class ListCursor(Struct, frozen=True, order=True):
    """A cursor of the chat list: the database's time at a query."""

    at: int

    def __str__(self) -> str:
        return str(self.at)

    @classmethod
    def parse(cls, text: str) -> ListCursor:
        """Parse a cursor. Raises `InvalidInput`."""
        if not text.isdecimal() or len(text) > 18:
            raise InvalidInput(f"{text!r:.80} is not a cursor: use that of an event, or none")
        return cls(int(text))


ZERO_CURSOR: Final = ListCursor(0)


class ChatListed(Struct, frozen=True):
    """A chat was created or changed."""

    cursor: ListCursor
    chat: ReaderChat


class ChatDeleted(Struct, frozen=True):
    """A chat was deleted, or is no longer shared with the user."""

    cursor: ListCursor
    id: str


class ListVoid(Struct, frozen=True):
    """The list has to be read again: too many chats changed, or it is unknown which."""

    cursor: ListCursor


class ListStart(Struct, frozen=True):
    """The first event for a new reader if there is no other event; it carries the cursor."""

    cursor: ListCursor


ChatListEvent: TypeAlias = Union[ChatListed, ChatDeleted, ListVoid, ListStart]
"""An event of the chat-list stream."""


class ListChanges(Struct, frozen=True):
    """Changes that one query found."""

    now: int
    chats: Sequence[ReaderChat]
    whole: bool
    """Whether everything that changed was queried, not only the chats of notices."""
    notified: frozenset[str]
    """Chats that notices named."""
    shared: frozenset[str]
    """Chats that others share with the user; unless `whole`, only among `notified`."""
    deleted: Mapping[str, int]
    """Chats that the user lost, and when."""
    ahead: bool
    """Whether the reader's cursor is in the future."""


class ChatListStream:
    """The chat-list stream of one user from one cursor on; same interface as `ChatEvents`."""

    def __init__(
        self, feed: Feed, notifier: ChatListNotifier, user: str, after: ListCursor | None
    ) -> None:
        self.ended = False
        self._feed = feed
        self._notifier = notifier
        self.followed: frozenset[str] = frozenset()
        """Chats of other users that this stream is notified of. Maintained by the notifier."""
        self._user = user
        self._after = after
        self._at: ListCursor | None = None
        """Cursor of the last query."""
        self._ready: list[ChatListEvent] = []
        self._notified: set[str] = set()
        self._query_all = True
        self._rest_until = 0.0
        self._sync_at = 0.0
        """When the next full query is due, whatever notices came."""
        self._void_until = 0
        """Changes up to this time are not sent: a `ListVoid` covers them."""
        self._sent: dict[str, tuple[int, ReaderChat]] = {}
        """By chat: when it was last queried, and the value last sent."""
        self._deleted: dict[str, int] = {}
        """Chats sent as deleted, and when the user lost them."""
        self._shared: frozenset[str] = frozenset()
        """Chats that others share with the user, as far as they were sent."""
        self._calls: list[Callable[[], None]] = []
        notifier.enter(user, self)

    # --- output ---

    @property
    def cursor(self) -> ListCursor:
        """Cursor of what was sent so far."""
        return self._at or self._after or ZERO_CURSOR

    def take(self) -> list[ChatListEvent]:
        """Take the events that are ready."""
        taken, self._ready = self._ready, []
        return taken

    @property
    def due(self) -> float:
        """When the next query is due, by the event loop's clock."""
        notified = self._query_all or self._notified
        return max(self._rest_until, 0.0 if notified else self._sync_at)

    def wants_look(self, now: float) -> bool:
        """Whether a query is due."""
        return now >= self.due

    def when_roused(self, call: Callable[[], None]) -> None:
        """Register a callback for the next notice."""
        self._calls.append(call)

    def joins(self, other: ChatListStream) -> bool:
        """Whether the other stream is not ahead of this one and has sent the same values."""
        if self._at is None or other._at is None or self._ready or other._ready:
            return False
        # If it had sent another value for a chat, a revert to that value would be lost.
        return other._at <= self._at and all(
            other._sent.get(id, sent)[1] == sent[1] for id, sent in self._sent.items()
        )

    def close(self) -> None:
        """End the stream."""
        self.ended = True
        self._notifier.leave(self._user, self)

    # --- notices ---

    def notify(self, chat_id: str | None) -> None:
        """Report that a chat changed; None: any chat may have changed."""
        if chat_id is None:
            self._query_all = True
        else:
            self._notified.add(chat_id)
        if len(self._notified) > MAX_CHATS_SENT:
            self._query_all = True
            self._notified.clear()
        calls, self._calls = self._calls, []
        for call in calls:
            call()

    # --- queries ---

    async def look(self) -> None:
        """Query the database for changes, and make events of them."""
        whole = self._query_all or _now() >= self._sync_at
        notified, self._notified = frozenset(self._notified), set()
        self._query_all = False
        began = _now()
        try:
            changes = await self._feed.db.read(lambda tx: self._read(tx, whole, notified))
        except Unavailable as error:
            if self._at is None or isinstance(error, Closed):
                raise
            LOG.warning("chat-list stream: database unavailable, will retry: %s", error)
            self._query_all = True
            await anyio.sleep(self._feed.poll)
            return
        now = _now()
        self._rest_until = now + QUERY_INTERVAL
        if whole:
            pause = max(self._feed.poll, PAUSE_FACTOR * (now - began))
            self._sync_at = now + min(pause, MAX_PAUSE)
        self._emit(changes)

    async def _read(self, tx: Tx, whole: bool, notified: frozenset[str]) -> ListChanges:
        now = await now_of(tx)
        last = self._at or self._after or ListCursor(now)
        # No query of ours issued this cursor: it is made up, or the database's clock went back.
        ahead = self._at is None and last.at > now
        since = now if ahead else max(last.at - QUERY_OVERLAP, self._void_until)
        marked = await marked_since(tx, self._user, since) if whole else notified
        rows = await self._own(tx, since if whole else None, marked)
        shared = await _shared(tx, self._user, None if whole else notified)
        new = marked & shared.keys()
        if whole:
            new |= {id for id, at in shared.items() if at > since}
        if whole and self._at is not None:
            new |= shared.keys() - self._shared
        rows += await self._of_others(tx, since, new, shared)
        chats = await _shown(tx, self._user, rows, self._feed.stranded_limits)
        # A deleted chat is in a notice, and not in the rows.
        lost = whole or not notified <= {row.id for row in rows}
        deleted = await lost_since(tx, self._user, since, MAX_CHATS_SENT + 1) if lost else {}
        return ListChanges(now, chats, whole, notified, frozenset(shared), deleted, ahead)

    async def _own(self, tx: Tx, since: int | None, ids: Collection[str]) -> list[ChatRow]:
        """The user's own chats among `ids`, and all that changed since then."""
        mine, one_of = "owner = :reader", tx.dialect.one_of("id", "ids")
        if since is None:
            rows = await self._chats(tx, f"{mine} AND {one_of}", {"ids": sorted(ids)})
        else:
            params = {"ids": sorted(ids), "since": since}
            rows = await self._chats(tx, f"{mine} AND (updated_at > :since OR {one_of})", params)
        # What a child chat waits for is shown with its root chat.
        above = {row.root_id for row in rows} - {row.id for row in rows}
        if above and len(rows) <= MAX_CHATS_SENT:
            rows += await self._chats(tx, f"{mine} AND {one_of}", {"ids": sorted(above)})
        return rows

    async def _of_others(
        self, tx: Tx, since: int, new: Collection[str], shared: Collection[str]
    ) -> list[ChatRow]:
        """Chats of other users that were shared, or have changed, since then."""
        if not shared:
            return []
        among, fresh = tx.dialect.one_of("id", "ids"), tx.dialect.one_of("id", "fresh")
        return await self._chats(
            tx,
            f"owner <> :reader AND {among} AND (updated_at > :since OR {fresh})",
            {"ids": sorted(shared), "fresh": sorted(new), "since": since},
        )

    async def _chats(self, tx: Tx, condition: str, params: Mapping[str, Any]) -> list[ChatRow]:
        named = {"reader": self._user} if ":reader" in condition else {}
        rows = await tx.fetch(
            f"{SELECT_CHAT} WHERE {condition} ORDER BY updated_at, id LIMIT :limit",
            {**named, "limit": MAX_CHATS_SENT + 1, **params},
        )
        return [chat_of(row) for row in rows]

    def _emit(self, changes: ListChanges) -> None:
        new, before, self._at = self.cursor == ZERO_CURSOR, self.cursor, ListCursor(changes.now)
        events = self._events(changes, before)
        if new and not events:  # without a cursor the reader could not resume from here
            events = [ListStart(before)]
        self._ready += _move_cursor_last(events, self._at)
        if not changes.whole:
            self._shared -= changes.notified - changes.shared
        elif not self.ended:
            self._shared = changes.shared
            self._notifier.follow(self, changes.shared)
        self._sent |= {chat.id: (changes.now, chat) for chat in changes.chats}
        self._deleted |= changes.deleted
        if changes.whole:  # older ones are not found again
            oldest = changes.now - 2 * QUERY_OVERLAP
            self._sent = {id: one for id, one in self._sent.items() if one[0] > oldest}
            self._deleted = {id: at for id, at in self._deleted.items() if at > oldest}

    def _events(self, changes: ListChanges, cursor: ListCursor) -> list[ChatListEvent]:
        if changes.ahead or len(changes.chats) + len(changes.deleted) > MAX_CHATS_SENT:
            self._void_until = changes.now
            return [ListVoid(cursor)]
        events: list[ChatListEvent] = [
            ChatListed(cursor, chat) for chat in changes.chats if self._last_sent(chat) != chat
        ]
        deleted = [id for id, at in changes.deleted.items() if self._deleted.get(id) != at]
        return events + [ChatDeleted(cursor, id) for id in deleted]

    def _last_sent(self, chat: ReaderChat) -> ReaderChat | None:
        """The value last sent for a chat."""
        _, sent = self._sent.get(chat.id, (0, None))
        return sent


async def _shown(
    tx: Tx, user: str, rows: Sequence[ChatRow], limits: StrandedLimits
) -> list[ReaderChat]:
    marks, openings = await read_marks(tx, user, rows), await read_openings(tx, rows)
    return [
        for_reader(chat, marks[chat.id], openings.get(chat.id))
        for chat in await snapshots(tx, rows, limits)
    ]


async def _shared(tx: Tx, user: str, among: Collection[str] | None) -> dict[str, int]:
    """Chats that others share with a user, and since when."""
    some = "" if among is None else f"AND {tx.dialect.one_of('chat_id', 'among')}"
    rows = await tx.fetch(
        f"{shared_with(tx, 'chat_id, created_at')} {some}",
        {"reader": user, **({} if among is None else {"among": sorted(among)})},
    )
    return {row[0]: row[1] for row in rows}


def _move_cursor_last(events: list[ChatListEvent], to: ListCursor) -> list[ChatListEvent]:
    """Make only the last event of a query advance the cursor."""
    if events:
        events[-1] = structs.replace(events[-1], cursor=to)
    return events


class ChatListNotifier:
    """Notifies each chat-list stream of the chats that changed.

    A notice names the chat and not its owner, so owners are queried, for all chats of the notices
    that arrived meanwhile at once.
    """

    def __init__(self, feed: Feed, spawn: SpawnTask) -> None:
        self._db = feed.db
        self._spawn = spawn
        self._streams: dict[str, dict[ChatListStream, None]] = {}
        self._owners: OrderedDict[str, str] = OrderedDict()
        self._followed: dict[str, dict[ChatListStream, None]] = {}
        """By chat: the streams notified of it besides those of its owner."""
        self._unknown: set[str] = set()
        self._looking_up = False
        self._stop_listening: Callable[[], None] | None = None

    def enter(self, user: str, stream: ChatListStream) -> None:
        """Add a stream of a user."""
        self._streams.setdefault(user, {})[stream] = None
        if self._stop_listening is None:
            self._stop_listening = self._db.listen(self.on_notice)

    def follow(self, stream: ChatListStream, chats: Collection[str]) -> None:
        """Notify a stream of exactly these chats of other users."""
        for chat in stream.followed - set(chats):
            followers = self._followed.get(chat, {})
            followers.pop(stream, None)
            if not followers:
                self._followed.pop(chat, None)
        for chat in chats:
            self._followed.setdefault(chat, {})[stream] = None
        stream.followed = frozenset(chats)

    def leave(self, user: str, stream: ChatListStream) -> None:
        """Remove a stream of a user."""
        self.follow(stream, ())
        streams = self._streams.get(user, {})
        streams.pop(stream, None)
        if not streams:
            self._streams.pop(user, None)
        if not self._streams and self._stop_listening is not None:
            self._stop_listening()
            self._stop_listening = None

    def on_notice(self, notice: ChangeNotice) -> None:
        """Pass on a notice of the database."""
        if isinstance(notice, Changed):
            for stream in list(self._followed.get(notice.chat, ())):
                stream.notify(notice.chat)
        match notice:
            case Changed(chat) if chat in self._owners:
                self._notify_owner(chat)
            case Changed(chat):
                self._unknown.add(chat)
                if not self._looking_up:
                    self._looking_up = True
                    self._spawn(self._look_up_owners())
            case Claimable():
                pass  # for workers
            case NoticesLost():
                self._notify_all()

    async def _look_up_owners(self) -> None:
        try:
            while self._unknown:
                ids, self._unknown = sorted(self._unknown), set()
                owners, tombstones = await self._db.read(partial(_whose, ids=ids))
                for chat, owner in owners:
                    self._owners[chat] = owner
                    self._notify_owner(chat)
                for chat, reader in tombstones:
                    self._notify_user(reader, chat)
                while len(self._owners) > MAX_CACHED_OWNERS:
                    self._owners.popitem(last=False)
        except Unavailable:
            self._notify_all()  # their queries wait until the database is back
        finally:
            self._looking_up = False

    def _notify_owner(self, chat: str) -> None:
        self._notify_user(self._owners[chat], chat)

    def _notify_user(self, reader: str, chat: str) -> None:
        for stream in list(self._streams.get(reader, ())):
            stream.notify(chat)

    def _notify_all(self) -> None:
        for streams in list(self._streams.values()):
            for stream in list(streams):
                stream.notify(None)


async def _whose(tx: Tx, ids: Sequence[str]) -> tuple[Sequence[Row], Sequence[Row]]:
    """The owners of these chats; for deleted ones, the users who had them."""
    owners = await tx.fetch(
        f"SELECT id, owner FROM chats WHERE {tx.dialect.one_of('id', 'ids')}", {"ids": list(ids)}
    )
    return owners, await readers_of_deleted(tx, ids)


def _now() -> float:
    # Also called outside of any task, where anyio cannot tell which event loop it is on.
    return asyncio.get_running_loop().time()
