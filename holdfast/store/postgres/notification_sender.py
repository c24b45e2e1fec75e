"""Notifications to other processes.

They are never part of the transaction that they announce, because a commit that notifies holds a
cluster-wide lock until it is on disk. They are sent afterwards, on one connection of the process:
the first immediately, and those that follow within a few milliseconds together.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Final

import msgspec

from holdfast.store.database import Changed, ChangeNotice, Claimable

LOG: Final = logging.getLogger("holdfast")

CHANGED: Final = "holdfast_changed"
CLAIMABLE: Final = "holdfast_claimable"
MAX_NOTIFICATION_BYTES: Final = 7_900
"""Maximum bytes of one notification. PostgreSQL accepts 7,999."""
SEND_INTERVAL: Final = 0.005
"""Seconds from the end of one send to the next. Without it each commit of a busy chat would cost an
additional round trip."""


class Notification(msgspec.Struct, frozen=True):
    """A received notification: its sender and its notices."""

    sender: str
    serial: int
    """Serial number of the notification, counted by the sender."""
    notices: Sequence[ChangeNotice]


def payloads(sender: str, serial: int, notices: Iterable[ChangeNotice]) -> list[tuple[str, str]]:
    """Return channel and text of the notifications for these notices, without duplicates."""
    changed: dict[str, int] = {}
    claimable: dict[str, None] = {}
    for notice in notices:
        if isinstance(notice, Changed):
            changed[notice.chat] = max(notice.version, changed.get(notice.chat, 0))
        elif isinstance(notice, Claimable):
            claimable[notice.chat] = None
    head = f'["{sender}",{serial},['
    return [
        (channel, f"{head}{page}]]")
        for channel, items in ((CHANGED, changed.items()), (CLAIMABLE, claimable))
        for page in _pages(items, MAX_NOTIFICATION_BYTES - len(head) - 2)
    ]


def _pages(items: Iterable[object], room: int) -> Iterator[str]:
    page: list[bytes] = []
    used = 0
    for item in items:
        encoded = msgspec.json.encode(item)
        if page and used + len(encoded) > room:
            yield b",".join(page).decode()
            page, used = [], 0
        page.append(encoded)
        used += len(encoded) + 1
    if page:
        yield b",".join(page).decode()


_CHANGED: Final = msgspec.json.Decoder(tuple[str, int, list[tuple[str, int]]])
_CLAIMABLE: Final = msgspec.json.Decoder(tuple[str, int, list[str]])


def parse_notification(channel: str, payload: str) -> Notification | None:
    """Parse a notification, the reverse of `payloads`. None for one that is not Holdfast's."""
    try:
        if channel == CHANGED:
            sender, serial, changed = _CHANGED.decode(payload)
            return Notification(sender, serial, [Changed(*item) for item in changed])
        sender, serial, claimable = _CLAIMABLE.decode(payload)
        return Notification(sender, serial, [Claimable(item) for item in claimable])
    except msgspec.DecodeError:
        return None


def echo_test(sender: str) -> tuple[str, str]:
    """Return channel and text of an empty notification, to test whether it is received."""
    return CHANGED, f'["{sender}",0,[]]'


class Notifier:
    """Sends immediately after a quiet moment, and otherwise once `SEND_INTERVAL` is over."""

    def __init__(
        self,
        sender: str,
        notify: Callable[[Sequence[str], Sequence[str]], Awaitable[None]],
    ) -> None:
        """`notify` sends texts, each on its channel."""
        self._sender = sender
        self._notify = notify
        self._queue: list[ChangeNotice] = []
        self._wake = asyncio.Event()
        self._pause_ended = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._serial = 0

    def send_soon(self, notices: Sequence[ChangeNotice]) -> None:
        """Queue notices, which are sent within `SEND_INTERVAL`."""
        self._queue.extend(notices)
        self._idle.clear()
        self._wake.set()

    async def flushed(self) -> None:
        """Send pending notices without a pause, and wait until none is pending."""
        self._pause_ended.set()
        await self._idle.wait()

    async def run(self) -> None:
        """Send notices until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            notices, self._queue = self._queue, []
            await self._send(notices)
            if not self._queue:
                self._idle.set()
            await self._pause()

    async def _pause(self) -> None:
        """Pause for `SEND_INTERVAL`, or until a flush."""
        timer = asyncio.get_running_loop().call_later(SEND_INTERVAL, self._pause_ended.set)
        try:
            await self._pause_ended.wait()
        finally:
            timer.cancel()
        self._pause_ended.clear()

    async def _send(self, notices: Sequence[ChangeNotice]) -> None:
        pages = payloads(self._sender, self._serial + 1, notices)
        if not pages:
            return
        self._serial += 1
        channels, texts = [page[0] for page in pages], [page[1] for page in pages]
        for is_last_try in (False, True):
            try:
                await self._notify(channels, texts)
                return
            except Exception as error:
                if is_last_try:
                    LOG.warning(
                        "other processes were not notified of %d changes: %s", len(pages), error
                    )
