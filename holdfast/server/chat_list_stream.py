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
from holdfast.chat.errors import InvalidInput
from holdfast.chat.listing import Shown, read_openings, shown
from holdfast.chat.read_state import marked_since, read_marks, shared_with
from holdfast.chat.row_lock import OVERLAP, now_of
from holdfast.chat.rows import SELECT_CHAT, Chat, chat_of
from holdfast.chat.snapshots import Watch, snapshots
from holdfast.chat.tombstones import gone_since, had
from holdfast.store.database import (
    Changed,
    Claimable,
    Closed,
    Missed,
    Notice,
    Row,
    Tx,
    Unavailable,
)

LOG: Final = logging.getLogger("holdfast.server")
Spawn: TypeAlias = Callable[[Coroutine[Any, Any, None]], None]
"""Runs a task beside the streams, and ends it with them."""
MOST: Final = 500
"""Most chats sent one by one to a reconnecting reader; beyond that it has to read the list."""
REST: Final = 0.2
"""Seconds between two queries: a running chat changes with each of its steps."""
SHARE: Final = 20
LONGEST: Final = 30.0
"""A full query reads all chats of a user. The pause after it is `SHARE` times its duration, but at
most `LONGEST` seconds, which is less than `OVERLAP`."""
OWNERS: Final = 10_000
"""Most chats whose owner is cached."""


class Moment(Struct, frozen=True, order=True):
    """A cursor of the chat list: the database's time at a query."""

    at: int

    def __str__(self) -> str:
        return str(self.at)

    @classmethod
    def parse(cls, text: str) -> Moment:
        """Parse a cursor. Raises `InvalidInput`."""
        if not text.isdecimal() or len(text) > 18:
            raise InvalidInput(f"{text!r:.80} is not a cursor: use that of an event, or none")
        return cls(int(text))


NOWHERE: Final = Moment(0)


class ChatListed(Struct, frozen=True):
    """A chat was created or changed."""

    cursor: Moment
    chat: Shown


class ChatDeleted(Struct, frozen=True):
    """A chat was deleted, or is no longer shared with the user."""

    cursor: Moment
    id: str


class ListVoid(Struct, frozen=True):
    """Too much changed to send one by one, or it is unknown what: the list has to be read again."""

    cursor: Moment


class Begun(Struct, frozen=True):
    """The first event of a new reader when there is no other: it carries the cursor."""

    cursor: Moment


RosterEvent: TypeAlias = Union[ChatListed, ChatDeleted, ListVoid, Begun]
"""An event of the chat-list stream."""


class Found(Struct, frozen=True):
    """The result of one query."""

    now: int
    chats: Sequence[Shown]
    whole: bool
    """Everything that changed was queried, not only the chats of notices."""
    asked: frozenset[str]
    shared: frozenset[str]
    """Chats that others share with the user; unless `whole`, only among those asked for."""
    gone: Mapping[str, int]
    """Chats that the user lost, and when."""
    ahead: bool
    """The reader's cursor is in the future."""


class Roster:
    """The chat-list stream of one user from one cursor on; same interface as `ChatStream`."""

    def __init__(self, feed: Feed, rosters: Rosters, user: str, after: Moment | None) -> None:
        self.ended = False
        self._feed = feed
        self._rosters = rosters
        self.followed: frozenset[str] = frozenset()
        """Chats of other users that this stream is notified of. Maintained by `rosters`."""
        self._user = user
        self._after = after
        self._at: Moment | None = None
        """Cursor of the last query."""
        self._ready: list[RosterEvent] = []
        self._heard: set[str] = set()
        self._look_whole = True
        self._rest_until = 0.0
        self._sync_at = 0.0
        """When the next full query is due, whatever notices came."""
        self._void_until = 0
        """Changes up to this time are not sent: a `ListVoid` covers them."""
        self._told: dict[str, tuple[int, Shown]] = {}
        """By chat: the value last sent, and when it was last found to be so."""
        self._gone: dict[str, int] = {}
        """Chats sent as deleted, and when the user lost them."""
        self._shared: frozenset[str] = frozenset()
        """Chats that others share with the user, as far as they were sent."""
        self._calls: list[Callable[[], None]] = []
        rosters.enter(user, self)

    # --- output ---

    @property
    def cursor(self) -> Moment:
        """Cursor of what was sent so far."""
        return self._at or self._after or NOWHERE

    def take(self) -> list[RosterEvent]:
        """Take the events that are ready."""
        taken, self._ready = self._ready, []
        return taken

    @property
    def due(self) -> float:
        """When the next query is due, by the event loop's clock."""
        heard = self._look_whole or self._heard
        return max(self._rest_until, 0.0 if heard else self._sync_at)

    def wants_look(self, now: float) -> bool:
        """Whether a query is due."""
        return now >= self.due

    def when_roused(self, call: Callable[[], None]) -> None:
        """Call this once, at the next notice."""
        self._calls.append(call)

    def joins(self, other: Roster) -> bool:
        """Whether the other stream is not ahead of this one and has sent the same values."""
        if self._at is None or other._at is None or self._ready or other._ready:
            return False
        # If it had sent another value for a chat, a revert to that value would be lost.
        return other._at <= self._at and all(
            other._told.get(id, told)[1] == told[1] for id, told in self._told.items()
        )

    def close(self) -> None:
        """End the stream."""
        self.ended = True
        self._rosters.leave(self._user, self)

    # --- notices ---

    def hear(self, chat_id: str | None) -> None:
        """A chat changed; None: any chat may have changed."""
        if chat_id is None:
            self._look_whole = True
        else:
            self._heard.add(chat_id)
        if len(self._heard) > MOST:
            self._look_whole = True
            self._heard.clear()
        calls, self._calls = self._calls, []
        for call in calls:
            call()

    # --- queries ---

    async def look(self) -> None:
        """Query the database for changes, and make events of them."""
        whole = self._look_whole or _now() >= self._sync_at
        heard, self._heard = frozenset(self._heard), set()
        self._look_whole = False
        began = _now()
        try:
            found = await self._feed.db.read(lambda tx: self._read(tx, whole, heard))
        except Unavailable as error:
            if self._at is None or isinstance(error, Closed):
                raise
            LOG.warning("chat-list stream: database unavailable, will retry: %s", error)
            self._look_whole = True
            await anyio.sleep(self._feed.poll)
            return
        now = _now()
        self._rest_until = now + REST
        if whole:
            pause = max(self._feed.poll, SHARE * (now - began))
            self._sync_at = now + min(pause, LONGEST)
        self._give(found)

    async def _read(self, tx: Tx, whole: bool, heard: frozenset[str]) -> Found:
        now = await now_of(tx)
        last = self._at or self._after or Moment(now)
        # No query of ours issued this cursor: it is made up, or the database's clock went back.
        ahead = self._at is None and last.at > now
        since = now if ahead else max(last.at - OVERLAP, self._void_until)
        marked = await marked_since(tx, self._user, since) if whole else heard
        rows = await self._own(tx, since if whole else None, marked)
        shared = await _shared(tx, self._user, None if whole else heard)
        new = marked & shared.keys()
        if whole:
            new |= {id for id, at in shared.items() if at > since}
        if whole and self._at is not None:
            new |= shared.keys() - self._shared
        rows += await self._of_others(tx, since, new, shared)
        shown = await _shown(tx, self._user, rows, self._feed.watch)
        # A deleted chat is in a notice, and not in the rows.
        lost = whole or not heard <= {row.id for row in rows}
        gone = await gone_since(tx, self._user, since, MOST + 1) if lost else {}
        return Found(now, shown, whole, heard, frozenset(shared), gone, ahead)

    async def _own(self, tx: Tx, since: int | None, ids: Collection[str]) -> list[Chat]:
        """The user's own chats among `ids`, and all that changed since then."""
        mine, one_of = "owner = :reader", tx.dialect.one_of("id", "ids")
        if since is None:
            rows = await self._chats(tx, f"{mine} AND {one_of}", {"ids": sorted(ids)})
        else:
            given = {"ids": sorted(ids), "since": since}
            rows = await self._chats(tx, f"{mine} AND (updated_at > :since OR {one_of})", given)
        # What a child chat waits for is shown with its root chat.
        above = {row.root_id for row in rows} - {row.id for row in rows}
        if above and len(rows) <= MOST:
            rows += await self._chats(tx, f"{mine} AND {one_of}", {"ids": sorted(above)})
        return rows

    async def _of_others(
        self, tx: Tx, since: int, new: Collection[str], shared: Collection[str]
    ) -> list[Chat]:
        """Chats of other users that were shared, or have changed, since then."""
        if not shared:
            return []
        known, fresh = tx.dialect.one_of("id", "ids"), tx.dialect.one_of("id", "fresh")
        return await self._chats(
            tx,
            f"owner <> :reader AND {known} AND (updated_at > :since OR {fresh})",
            {"ids": sorted(shared), "fresh": sorted(new), "since": since},
        )

    async def _chats(self, tx: Tx, condition: str, given: Mapping[str, Any]) -> list[Chat]:
        named = {"reader": self._user} if ":reader" in condition else {}
        rows = await tx.fetch(
            f"{SELECT_CHAT} WHERE {condition} ORDER BY updated_at, id LIMIT :limit",
            {**named, "limit": MOST + 1, **given},
        )
        return [chat_of(row) for row in rows]

    def _give(self, found: Found) -> None:
        new, before, self._at = self.cursor == NOWHERE, self.cursor, Moment(found.now)
        events = self._events(found, before)
        if new and not events:  # without a cursor the reader could not resume from here
            events = [Begun(before)]
        self._ready += _last_moves(events, self._at)
        if not found.whole:
            self._shared -= found.asked - found.shared
        elif not self.ended:
            self._shared = found.shared
            self._rosters.follow(self, found.shared)
        self._told |= {chat.id: (found.now, chat) for chat in found.chats}
        self._gone |= found.gone
        if found.whole:  # older ones are not found again
            oldest = found.now - 2 * OVERLAP
            self._told = {id: one for id, one in self._told.items() if one[0] > oldest}
            self._gone = {id: at for id, at in self._gone.items() if at > oldest}

    def _events(self, found: Found, cursor: Moment) -> list[RosterEvent]:
        if found.ahead or len(found.chats) + len(found.gone) > MOST:
            self._void_until = found.now
            return [ListVoid(cursor)]
        events: list[RosterEvent] = [
            ChatListed(cursor, chat) for chat in found.chats if self._was_told(chat) != chat
        ]
        gone = [id for id, at in found.gone.items() if self._gone.get(id) != at]
        return events + [ChatDeleted(cursor, id) for id in gone]

    def _was_told(self, chat: Shown) -> Shown | None:
        """The value last sent for a chat."""
        _, told = self._told.get(chat.id, (0, None))
        return told


async def _shown(tx: Tx, user: str, rows: Sequence[Chat], watch: Watch) -> list[Shown]:
    marks, openings = await read_marks(tx, user, rows), await read_openings(tx, rows)
    return [
        shown(chat, marks[chat.id], openings.get(chat.id))
        for chat in await snapshots(tx, rows, watch)
    ]


async def _shared(tx: Tx, user: str, among: Collection[str] | None) -> dict[str, int]:
    """Chats that others share with a user, and since when."""
    some = "" if among is None else f"AND {tx.dialect.one_of('chat_id', 'among')}"
    rows = await tx.fetch(
        f"{shared_with(tx, 'chat_id, created_at')} {some}",
        {"reader": user, **({} if among is None else {"among": sorted(among)})},
    )
    return {row[0]: row[1] for row in rows}


def _last_moves(events: list[RosterEvent], to: Moment) -> list[RosterEvent]:
    """Let only the last event of a query move the cursor."""
    if events:
        events[-1] = structs.replace(events[-1], cursor=to)
    return events


class Rosters:
    """Notifies each chat-list stream of the chats that changed. A notice names the chat and not its
    owner, so owners are queried once for all chats that were named meanwhile."""

    def __init__(self, feed: Feed, spawn: Spawn) -> None:
        self._db = feed.db
        self._spawn = spawn
        self._rosters: dict[str, dict[Roster, None]] = {}
        self._owners: OrderedDict[str, str] = OrderedDict()
        self._followed: dict[str, dict[Roster, None]] = {}
        """By chat: the streams notified of it besides those of its owner."""
        self._unknown: set[str] = set()
        self._asking = False
        self._deaf: Callable[[], None] | None = None

    def enter(self, user: str, roster: Roster) -> None:
        """Add a stream of a user."""
        self._rosters.setdefault(user, {})[roster] = None
        if self._deaf is None:
            self._deaf = self._db.listen(self.hear)

    def follow(self, roster: Roster, chats: Collection[str]) -> None:
        """Notify a stream of exactly these chats of other users."""
        for chat in roster.followed - set(chats):
            followers = self._followed.get(chat, {})
            followers.pop(roster, None)
            if not followers:
                self._followed.pop(chat, None)
        for chat in chats:
            self._followed.setdefault(chat, {})[roster] = None
        roster.followed = frozenset(chats)

    def leave(self, user: str, roster: Roster) -> None:
        """Remove a stream of a user."""
        self.follow(roster, ())
        here = self._rosters.get(user, {})
        here.pop(roster, None)
        if not here:
            self._rosters.pop(user, None)
        if not self._rosters and self._deaf is not None:
            self._deaf()
            self._deaf = None

    def hear(self, notice: Notice) -> None:
        """Pass on a notice of the database."""
        if isinstance(notice, Changed):
            for roster in list(self._followed.get(notice.chat, ())):
                roster.hear(notice.chat)
        match notice:
            case Changed(chat) if chat in self._owners:
                self._tell(chat)
            case Changed(chat):
                self._unknown.add(chat)
                if not self._asking:
                    self._asking = True
                    self._spawn(self._ask())
            case Claimable():
                pass  # for workers
            case Missed():
                self._tell_all()

    async def _ask(self) -> None:
        try:
            while self._unknown:
                asked, self._unknown = sorted(self._unknown), set()
                owners, had = await self._db.read(partial(_whose, ids=asked))
                for chat, owner in owners:
                    self._owners[chat] = owner
                    self._tell(chat)
                for chat, reader in had:
                    self._tell_reader(reader, chat)
                while len(self._owners) > OWNERS:
                    self._owners.popitem(last=False)
        except Unavailable:
            self._tell_all()  # their queries wait until the database is back
        finally:
            self._asking = False

    def _tell(self, chat: str) -> None:
        self._tell_reader(self._owners[chat], chat)

    def _tell_reader(self, reader: str, chat: str) -> None:
        for roster in list(self._rosters.get(reader, ())):
            roster.hear(chat)

    def _tell_all(self) -> None:
        for rosters in list(self._rosters.values()):
            for roster in list(rosters):
                roster.hear(None)


async def _whose(tx: Tx, ids: Sequence[str]) -> tuple[Sequence[Row], Sequence[Row]]:
    """The owners of these chats; for deleted ones, the users who had them."""
    owners = await tx.fetch(
        f"SELECT id, owner FROM chats WHERE {tx.dialect.one_of('id', 'ids')}", {"ids": list(ids)}
    )
    return owners, await had(tx, ids)


def _now() -> float:
    # Also called outside of any task, where anyio cannot tell which event loop it is on.
    return asyncio.get_running_loop().time()
