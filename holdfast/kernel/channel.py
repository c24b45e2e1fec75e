"""Events on their way from a run to its reader.

Putting an event is synchronous and never loses one; the run asks for room where it can wait anyway.
So a slow reader slows the run, a burst overshoots by a few events, and an event costs no task
switch.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Protocol

from holdfast.kernel.events import Event


class Sink(Protocol):
    """Where a run's events go."""

    full: bool
    """Ask for `room` before going on. Stays false once nobody reads any more."""

    def put(self, event: Event) -> None: ...

    async def room(self) -> None: ...


class Nowhere:
    """The sink of a run that is only awaited."""

    full = False

    def put(self, event: Event) -> None:
        pass

    async def room(self) -> None:
        pass


class Channel:
    """A bounded buffer between one run and one reader."""

    def __init__(self, size: int) -> None:
        self.full = False
        self._size = size
        self._events: deque[Event] = deque()
        self._released = False
        self._closed = False
        self._reader: asyncio.Future[None] | None = None
        self._writer: asyncio.Future[None] | None = None

    def put(self, event: Event) -> None:
        self._events.append(event)
        if len(self._events) >= self._size and not self._released:
            self.full = True
        reader = self._reader
        if reader is not None and not reader.done():
            reader.set_result(None)

    async def room(self) -> None:
        """Wait until the reader has caught up with half of the buffer, or is gone."""
        while self.full:
            self._writer = asyncio.get_running_loop().create_future()
            await self._writer

    def release(self) -> None:
        """Never make the run wait again: it was interrupted, or its reader left."""
        self._released = True
        self._make_room()

    def abandon(self) -> None:
        """Nobody will read what is or will be in here."""
        self.release()
        self._events = deque(maxlen=0)

    def close(self) -> None:
        """No event comes after this."""
        self._closed = True
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    async def get(self) -> Event | None:
        """The next event, or None after the last."""
        while not self._events:
            if self._closed:
                return None
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        return self.take()

    def take(self) -> Event | None:
        """The next event if there is one, without waiting for it."""
        if not self._events:
            return None
        event = self._events.popleft()
        # Woken at half, not at every event: one task switch then moves many events.
        if self.full and len(self._events) <= self._size // 2:
            self._make_room()
        return event

    def _make_room(self) -> None:
        self.full = False
        if self._writer is not None and not self._writer.done():
            self._writer.set_result(None)
