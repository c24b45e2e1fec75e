"""The channel of events from a run to its reader, with back-pressure.

Putting an event is synchronous and never loses one; the run waits for room where it can wait
anyway. So a slow reader slows the run, a burst overshoots by a few events, and an event costs no
task switch.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Protocol

from holdfast.kernel.events import Event, Warned


class Sink(Protocol):
    """Receiver of a run's events."""

    full: bool
    """Whether to await `room` before continuing. Stays false once there is no reader."""

    has_reader: bool
    """Whether events are kept for a reader."""

    warnings: list[str]
    """Warnings so far."""

    def put(self, event: Event) -> None: ...

    def warn(self, text: str) -> None:
        """Put a warning, and keep it for the result of the run."""
        ...

    async def room(self) -> None: ...


class Channel:
    """A bounded buffer between one run and one reader."""

    def __init__(self, size: int) -> None:
        self.full = False
        self.has_reader = True
        self.warnings: list[str] = []
        self._size = size
        self._events: deque[Event] = deque()
        self._released = False
        self._closed = False
        self._readers: list[asyncio.Future[None]] = []
        self._writers: list[asyncio.Future[None]] = []
        """Waiters for room: the stream, and each tool that reports progress."""

    def put(self, event: Event) -> None:
        self._events.append(event)
        if len(self._events) >= self._size and not self._released:
            self.full = True
        if self._readers:
            _wake(self._readers)

    def warn(self, text: str) -> None:
        self.warnings.append(text)
        self.put(Warned(text))

    async def room(self) -> None:
        """Wait until the reader has emptied half of the buffer, or has left."""
        while self.full:
            await _wait_in(self._writers)

    def release(self) -> None:
        """Never make the run wait again: it was interrupted."""
        self._released = True
        self._make_room()

    def abandon(self) -> None:
        """Discard all events until `listen` is called."""
        self.has_reader = False
        self._events = deque(maxlen=0)
        self._make_room()

    def listen(self) -> None:
        """Buffer events again: there is a reader."""
        self.has_reader = True
        if self._events.maxlen == 0:
            self._events = deque()

    def close(self) -> None:
        """No event comes after this."""
        self._closed = True
        _wake(self._readers)

    async def get(self) -> Event | None:
        """The next event, or None after the last."""
        while not self._events:
            if self._closed:
                return None
            await _wait_in(self._readers)
        return self.take()

    def take(self) -> Event | None:
        """The next event, or None without waiting for it."""
        if not self._events:
            return None
        event = self._events.popleft()
        # Woken at half, not at every event: one task switch then moves many events.
        if self.full and len(self._events) <= self._size // 2:
            self._make_room()
        return event

    def _make_room(self) -> None:
        self.full = False
        _wake(self._writers)


async def _wait_in(queue: list[asyncio.Future[None]]) -> None:
    """Wait in a queue until it is woken. Cancelling one waiter does not affect the others."""
    waiter = asyncio.get_running_loop().create_future()
    queue.append(waiter)
    try:
        await waiter
    finally:
        if waiter in queue:
            queue.remove(waiter)


def _wake(queue: list[asyncio.Future[None]]) -> None:
    while queue:
        waiter = queue.pop(0)
        if not waiter.done():
            waiter.set_result(None)
