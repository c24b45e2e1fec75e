"""A small cache of database lookups, bounded in size and time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

import anyio

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
CACHE_SECONDS: Final = 2.0
"""Seconds that a cached lookup is used."""
CACHE_SIZE: Final = 10_000
"""Entries in each cache: of credentials, and of chats that users may know of."""


class Cache(Generic[K, V]):
    """A cache of at most `size` entries, each kept for at most `lasts` seconds."""

    def __init__(self, size: int, lasts: float) -> None:
        self._size = size
        self._lasts = lasts
        self._entries: OrderedDict[K, tuple[float, V]] = OrderedDict()

    def get(self, key: K) -> V | None:
        """The cached value; None if there is none or it has expired."""
        entry = self._entries.get(key)
        if entry is None or entry[0] <= anyio.current_time():
            return None
        return entry[1]

    def put(self, key: K, value: V, lasts: float | None = None) -> None:
        """Add an entry. `lasts`: seconds, if shorter than those of the cache."""
        seconds = self._lasts if lasts is None else min(lasts, self._lasts)
        self._entries.pop(key, None)  # so that the order is that of insertion, oldest first
        self._entries[key] = anyio.current_time() + seconds, value
        if len(self._entries) > self._size:
            self._entries.popitem(last=False)

    def __len__(self) -> int:
        return len(self._entries)
