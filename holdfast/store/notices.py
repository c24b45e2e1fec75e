"""Distribution of notices to the listeners in this process."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from holdfast.store.database import Notice

LOG: Final = logging.getLogger("holdfast")

Hear: TypeAlias = Callable[[Notice], None]


class Notices:
    """The listeners. Used on the event loop's thread only."""

    def __init__(self) -> None:
        self._listeners: dict[object, Hear] = {}

    def listen(self, hear: Hear) -> Callable[[], None]:
        """Receive every notice from now on, on the event loop's thread. Call the result to stop."""
        key = object()
        self._listeners[key] = hear

        def end() -> None:
            self._listeners.pop(key, None)

        return end

    def tell(self, notices: Iterable[Notice]) -> None:
        """Send notices to all listeners, in the order of registration. An exception affects one
        only."""
        for notice in notices:
            for key, hear in tuple(self._listeners.items()):
                if key not in self._listeners:  # removed by a listener that ran before it
                    continue
                try:
                    hear(notice)
                except Exception:
                    LOG.exception("a listener failed on %r; the others were notified", notice)
