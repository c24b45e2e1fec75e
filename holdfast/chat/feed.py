"""Where whoever watches chats in this process hears of them: notices by chat, and live deltas."""

from __future__ import annotations

from typing import Final
from weakref import WeakValueDictionary

import anyio

from holdfast.chat.view import Watch
from holdfast.live.deltas import Live
from holdfast.store.database import Changed, Claimable, Database, Missed, Notice

POLL: Final = 5.0
"""Seconds: the net under notices. One that is lost costs at most this long."""


class News:
    """What was heard of one chat, shared by all who watch it and gone with the last of them."""

    __slots__ = ("__weakref__", "_wake", "count", "missed", "version")

    def __init__(self) -> None:
        self.count = 0
        """How often anything was heard."""
        self.version = 0
        """The newest snapshot that was heard of."""
        self.missed = 0
        """How often notices may have been lost."""
        self._wake = anyio.Event()

    def tell(self, version: int | None) -> None:
        """There is this version; None: anything may have happened."""
        if version is None:
            self.missed += 1
        else:
            self.version = max(self.version, version)
        self.count += 1
        wake, self._wake = self._wake, anyio.Event()
        wake.set()

    def found(self, version: int, heard: int) -> None:
        """Who looked when this was `heard` found no newer version than this: what was heard of is
        no more, as after a server that took over without it."""
        if self.version == heard > version:
            self.version = version

    async def after(self, count: int) -> None:
        """Wait until more was heard than `count` says."""
        while self.count == count:
            await self._wake.wait()


class Feed:
    """One listener for all who watch, so that a notice costs the same however many there are."""

    def __init__(self, db: Database, live: Live, watch: Watch, poll: float = POLL) -> None:
        self.db = db
        self.live = live
        self.watch = watch
        self.poll = poll
        self.worker: str | None = None
        """The id of the worker of this process, when it has one."""
        self._news: WeakValueDictionary[str, News] = WeakValueDictionary()

    def news(self, chat_id: str) -> News:
        """What is heard of a chat from now on. It is enough to keep it."""
        news = self._news.get(chat_id)
        if news is None:
            news = self._news[chat_id] = News()
        return news

    def hear(self, notice: Notice) -> None:
        match notice:
            case Changed(chat, version):
                news = self._news.get(chat)
                if news is not None:
                    news.tell(version)
                    self.live.rouse(chat)
            case Claimable():
                pass  # for workers
            case Missed():
                for chat, news in list(self._news.items()):
                    news.tell(None)
                    self.live.rouse(chat)
