"""An event that can be reset and waited for again."""

from __future__ import annotations

import anyio


class ResettableEvent:
    """Wakes those that wait for it. Stays set until it is reset."""

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event = anyio.Event()

    def set(self) -> None:
        self._event.set()

    def reset(self) -> None:
        """Forget that it was set: the next `wait` waits for the next `set`."""
        if self._event.is_set():
            self._event = anyio.Event()

    async def wait(self) -> None:
        await self._event.wait()
