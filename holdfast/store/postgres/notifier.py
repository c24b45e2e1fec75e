"""Notifications to other processes.

They are never part of the transaction that they announce: a commit that notifies holds a
cluster-wide lock until it is on disk. They are sent afterwards, on one connection of the process:
the first immediately, later ones collected for a moment.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Final

import msgspec

from holdfast.store.database import Changed, Claimable, Hold, Notice

LOG: Final = logging.getLogger("holdfast")

CHANGED: Final = "holdfast_changed"
CLAIMABLE: Final = "holdfast_claimable"
ROOM: Final = 7_900
"""Maximum bytes of one notification. PostgreSQL accepts 7,999."""
PAUSE: Final = 0.005
"""Seconds from the end of one send to the next. Without it each commit of a busy chat would cost an
additional round trip."""


class Heard(msgspec.Struct, frozen=True):
    """The contents and the sender of a notification."""

    sender: str
    serial: int
    """Serial number of the notification, counted by the sender."""
    notices: Sequence[Notice]


def payloads(sender: str, serial: int, notices: Iterable[Notice]) -> list[tuple[str, str]]:
    """Return channel and text of the notifications for these notices, each chat once."""
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
        for page in _pages(items, ROOM - len(head) - 2)
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


def heard(channel: str, payload: str) -> Heard | None:
    """Parse a notification, the reverse of `payloads`. None for one that is not Holdfast's."""
    try:
        if channel == CHANGED:
            sender, serial, changed = _CHANGED.decode(payload)
            return Heard(sender, serial, [Changed(*each) for each in changed])
        sender, serial, claimable = _CLAIMABLE.decode(payload)
        return Heard(sender, serial, [Claimable(each) for each in claimable])
    except msgspec.DecodeError:
        return None


def probe(sender: str) -> tuple[str, str]:
    """Return channel and text of an empty notification, to test whether it comes back."""
    return CHANGED, f'["{sender}",0,[]]'


class Notifier:
    """Sends immediately after a quiet moment, and otherwise once `PAUSE` is over."""

    def __init__(
        self,
        sender: str,
        notify: Callable[[Sequence[str], Sequence[str]], Awaitable[None]],
        hold: Hold,
    ) -> None:
        """notify: sends texts, each on its channel."""
        self._sender = sender
        self._notify = notify
        self._hold = hold
        self._waiting: list[Notice] = []
        self._wake = asyncio.Event()
        self._rested = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._serial = 0
        self._flying: AbstractContextManager[None] | None = None
        self.echoes = False
        """Whether what is sent also comes back to this process."""

    def tell(self, notices: Sequence[Notice]) -> None:
        """Send notices soon."""
        self._waiting.extend(notices)
        self._idle.clear()
        self._wake.set()

    async def flushed(self) -> None:
        """Send what is pending now; returns when nothing is pending."""
        self._rested.set()
        await self._idle.wait()

    async def run(self) -> None:
        """Send notices until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            with self._hold():
                notices, self._waiting = self._waiting, []
                await self._send(notices)
            if not self._waiting:
                self._idle.set()
            await self._rest()

    async def _rest(self) -> None:
        """Pause, outside of `hold`, which would stop the timer too. Ends at once on a flush."""
        timer = asyncio.get_running_loop().call_later(PAUSE, self._rested.set)
        try:
            await self._rested.wait()
        finally:
            timer.cancel()
        self._rested.clear()

    async def _send(self, notices: Sequence[Notice]) -> None:
        pages = payloads(self._sender, self._serial + 1, notices)
        if not pages:
            return
        self._serial += 1
        channels, texts = [page[0] for page in pages], [page[1] for page in pages]
        self._take_off()
        for last in (False, True):
            try:
                await self._notify(channels, texts)
                return
            except Exception as error:
                if last:
                    LOG.warning(
                        "other processes were not notified of %d changes: %s", len(pages), error
                    )
                    self.land()

    def _take_off(self) -> None:
        """Hold virtual time until the notices are back, so that nothing overtakes them."""
        if self._flying is None and self.echoes:
            self._flying = self._hold()
            self._flying.__enter__()

    def came_back(self, serial: int) -> None:
        if serial >= self._serial:
            self.land()

    def land(self) -> None:
        """Release virtual time: nothing more will come back."""
        flying, self._flying = self._flying, None
        if flying is not None:
            flying.__exit__(None, None, None)
