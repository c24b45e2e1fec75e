"""Notices within this process: everybody who listens is told."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from holdfast.store.database import Notice

LOG: Final = logging.getLogger("holdfast")

Hear: TypeAlias = Callable[[Notice], None]


class Notices:
    """Who listens. Used on the event loop's thread only."""

    def __init__(self) -> None:
        self._listeners: dict[object, Hear] = {}

    def listen(self, hear: Hear) -> Callable[[], None]:
        """Hear every notice from now on, on the event loop's thread. The result ends it."""
        key = object()
        self._listeners[key] = hear

        def end() -> None:
            self._listeners.pop(key, None)

        return end

    def tell(self, notices: Iterable[Notice]) -> None:
        """Tell everybody, in the order in which they began. One that raises disturbs nobody."""
        for notice in notices:
            for key, hear in tuple(self._listeners.items()):
                if key not in self._listeners:  # ended by one that was told before it
                    continue
                try:
                    hear(notice)
                except Exception:
                    LOG.exception("a listener failed on %r; the others were told", notice)
