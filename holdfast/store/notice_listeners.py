"""Distribution of notices to the listeners of this process."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from holdfast.store.database import ChangeNotice

LOG: Final = logging.getLogger("holdfast")

NoticeHandler: TypeAlias = Callable[[ChangeNotice], None]


class NoticeListeners:
    """The listeners of this process. Used on the event loop's thread only."""

    def __init__(self) -> None:
        self._listeners: dict[object, NoticeHandler] = {}

    def listen(self, receive: NoticeHandler) -> Callable[[], None]:
        """Receive every notice from now on, on the event loop's thread. Call the result to stop."""
        key = object()
        self._listeners[key] = receive

        def stop() -> None:
            self._listeners.pop(key, None)

        return stop

    def notify(self, notices: Iterable[ChangeNotice]) -> None:
        """Send notices to all listeners, in the order of registration.

        An exception of one listener is logged, and the others are still notified.
        """
        for notice in notices:
            for key, receive in tuple(self._listeners.items()):
                if key not in self._listeners:  # removed by a listener that ran before it
                    continue
                try:
                    receive(notice)
                except Exception:
                    LOG.exception("a listener failed on %r; the others were notified", notice)
