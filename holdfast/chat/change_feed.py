"""The change feed: distributes notices and live deltas to the chat streams of this process."""

from __future__ import annotations

from typing import Final
from weakref import WeakValueDictionary

import anyio

from holdfast.chat.snapshots import Watch
from holdfast.live.broadcast import Live
from holdfast.store.database import Changed, Claimable, Database, Missed, Notice

POLL: Final = 5.0
"""Polling interval in seconds; bounds the delay after a lost notice."""


class News:
    """Latest announced version of one chat, shared by all its readers and freed with the last of
    them."""

    __slots__ = ("__weakref__", "_wake", "count", "missed", "version")

    def __init__(self) -> None:
        self.count = 0
        """Number of announcements so far."""
        self.version = 0
        """The newest announced snapshot version."""
        self.missed = 0
        """How often notices may have been lost."""
        self._wake = anyio.Event()

    def tell(self, version: int | None) -> None:
        """Announce a version; None means that any change may have been missed."""
        if version is None:
            self.missed += 1
        else:
            self.version = max(self.version, version)
        self.count += 1
        wake, self._wake = self._wake, anyio.Event()
        wake.set()

    def found(self, version: int, heard: int) -> None:
        """Lower the announced version if a query found only an older one, as after a fail-over that
        lost the last commits."""
        if self.version == heard > version:
            self.version = version

    async def after(self, count: int) -> None:
        """Wait until more than `count` announcements have been made."""
        while self.count == count:
            await self._wake.wait()


class Feed:
    """One listener for all readers, so that a notice costs the same however many readers there
    are."""

    def __init__(self, db: Database, live: Live, watch: Watch, poll: float = POLL) -> None:
        self.db = db
        self.live = live
        self.watch = watch
        self.poll = poll
        self.worker: str | None = None
        """Id of this process's worker, if it has one."""
        self._news: WeakValueDictionary[str, News] = WeakValueDictionary()

    def news(self, chat_id: str) -> News:
        """Return the news of a chat. It is updated for as long as the caller keeps it."""
        news = self._news.get(chat_id)
        if news is None:
            news = self._news[chat_id] = News()
        return news

    def hear(self, notice: Notice) -> None:
        """Distribute one notice."""
        match notice:
            case Changed(chat, version):
                news = self._news.get(chat)
                if news is not None:
                    news.tell(version)
                    self.live.rouse(chat)
            case Claimable():
                pass  # only workers need it
            case Missed():
                for chat, news in list(self._news.items()):
                    news.tell(None)
                    self.live.rouse(chat)
