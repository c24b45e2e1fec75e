"""A small cache of database lookups, bounded in size and time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

import anyio

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Cache(Generic[K, V]):
    """A cache of at most `size` entries, each kept for at most `lasts` seconds."""

    def __init__(self, size: int, lasts: float) -> None:
        self._size = size
        self._lasts = lasts
        self._kept: OrderedDict[K, tuple[float, V]] = OrderedDict()

    def get(self, key: K) -> V | None:
        """The cached value; None if there is none or it has expired."""
        found = self._kept.get(key)
        if found is None or found[0] <= anyio.current_time():
            return None
        return found[1]

    def put(self, key: K, value: V, lasts: float | None = None) -> None:
        """Add an entry. `lasts`: seconds, if shorter than those of the cache."""
        seconds = self._lasts if lasts is None else min(lasts, self._lasts)
        self._kept.pop(key, None)  # so that the order is that of insertion, oldest first
        self._kept[key] = anyio.current_time() + seconds, value
        if len(self._kept) > self._size:
            self._kept.popitem(last=False)

    def __len__(self) -> int:
        return len(self._kept)
