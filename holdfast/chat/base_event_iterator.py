"""An async iterator over events, in this process or from a server."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from types import TracebackType
from typing import Generic, Self, TypeVar

import anyio

E = TypeVar("E")


class EventIterator(ABC, Generic[E]):
    """Iterates over events, for one reader at a time. Close it with `aclose` or `async with`."""

    def __init__(self) -> None:
        self._ready: deque[E] = deque()
        """Events to return."""
        self._ended = False
        self._error: Exception | None = None
        """Error that is raised after all earlier events were returned."""
        self._guard = anyio.ResourceGuard("reading from")

    @abstractmethod
    async def _advance(self) -> None:
        """Add events to `_ready`, end, or wait until there may be events."""

    @abstractmethod
    def _release(self) -> None:
        """Release everything. May be called again."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> E:
        with self._guard:
            while not self._ready and not self._ended:
                await self._advance()
        if self._ready:
            return self._ready.popleft()
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        raise StopAsyncIteration

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End the iteration and release everything."""
        self._ready.clear()
        self._end()

    def _end(self, error: Exception | None = None) -> None:
        self._ended, self._error = True, error
        self._release()
