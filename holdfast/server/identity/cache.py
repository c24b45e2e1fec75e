"""A few answers of the database, remembered for a moment."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

import anyio

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Cache(Generic[K, V]):
    """At most `size` of them, each for at most `lasts` seconds."""

    def __init__(self, size: int, lasts: float) -> None:
        self._size = size
        self._lasts = lasts
        self._kept: OrderedDict[K, tuple[float, V]] = OrderedDict()

    def get(self, key: K) -> V | None:
        found = self._kept.get(key)
        if found is None or found[0] <= anyio.current_time():
            return None
        return found[1]

    def put(self, key: K, value: V, lasts: float | None = None) -> None:
        """`lasts`: shorter than usual."""
        seconds = self._lasts if lasts is None else min(lasts, self._lasts)
        self._kept.pop(key, None)  # so that the oldest stand in front
        self._kept[key] = anyio.current_time() + seconds, value
        if len(self._kept) > self._size:
            self._kept.popitem(last=False)

    def __len__(self) -> int:
        return len(self._kept)
