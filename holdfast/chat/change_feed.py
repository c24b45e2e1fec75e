"""The change feed: distributes notices and live deltas to the chat streams of this process."""

from __future__ import annotations

from typing import Final
from weakref import WeakValueDictionary

import anyio

from holdfast.chat.snapshots import StrandedLimits
from holdfast.live.broadcast import Live
from holdfast.store.database import Changed, ChangeNotice, Claimable, Database, NoticesLost

POLL_INTERVAL: Final = 5.0
"""Polling interval in seconds; bounds the delay after a lost notice."""


class Announcements:
    """Latest announced version of one chat. Shared by its readers, and freed with the last one."""

    __slots__ = ("__weakref__", "_wake", "count", "losses", "version")

    def __init__(self) -> None:
        self.count = 0
        """Number of announcements so far."""
        self.version = 0
        """The newest announced snapshot version."""
        self.losses = 0
        """Number of times that notices may have been lost."""
        self._wake = anyio.Event()

    def announce(self, version: int | None) -> None:
        """Announce a version; None means that any change may have been missed."""
        if version is None:
            self.losses += 1
        else:
            self.version = max(self.version, version)
        self.count += 1
        wake, self._wake = self._wake, anyio.Event()
        wake.set()

    def correct(self, version: int, announced: int) -> None:
        """Lower the announced version if a query returned an older one.

        A fail-over may have lost the last commits. `announced` is the version that was announced
        when the query began.
        """
        if self.version == announced > version:
            self.version = version

    async def wait_after(self, count: int) -> None:
        """Wait until more than `count` announcements have been made."""
        while self.count == count:
            await self._wake.wait()


class Feed:
    """Distributes the notices of a database, with one listener for all readers."""

    def __init__(
        self, db: Database, live: Live, stranded_limits: StrandedLimits, poll: float = POLL_INTERVAL
    ) -> None:
        self.db = db
        self.live = live
        self.stranded_limits = stranded_limits
        self.poll = poll
        self.worker: str | None = None
        """Id of this process's worker, if it has one."""
        self._announcements: WeakValueDictionary[str, Announcements] = WeakValueDictionary()

    def announcements(self, chat_id: str) -> Announcements:
        """Return the announcements of a chat, which are updated while the caller refers to them."""
        announcements = self._announcements.get(chat_id)
        if announcements is None:
            announcements = self._announcements[chat_id] = Announcements()
        return announcements

    def receive_notice(self, notice: ChangeNotice) -> None:
        """Distribute one notice."""
        match notice:
            case Changed(chat, version):
                announcements = self._announcements.get(chat)
                if announcements is not None:
                    announcements.announce(version)
                    self.live.rouse(chat)
            case Claimable():
                pass  # only workers need it
            case NoticesLost():
                for chat, announcements in list(self._announcements.items()):
                    announcements.announce(None)
                    self.live.rouse(chat)
