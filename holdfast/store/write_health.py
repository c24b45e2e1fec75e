"""Whether writes to a database succeed, as `/readyz` reports."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from holdfast.store.database import NotWritable

RECOVERY_TIME: Final = 10.0
"""Seconds without a failed write after which a database counts as writable again. On a full disk
small writes still succeed now and then, such as the heartbeat of a worker."""


class WriteHealth:
    """The last failed write, until later writes succeed."""

    def __init__(self, time: Callable[[], float]) -> None:
        self._time = time
        self._failure: NotWritable | None = None
        self._failed_at = 0.0
        self._succeeded = True

    def record(self, error: BaseException | None) -> None:
        """Record the outcome of a write. Errors other than `NotWritable` are ignored."""
        if isinstance(error, NotWritable):
            self._failure, self._failed_at, self._succeeded = error, self._time(), False
        elif error is None:
            self._succeeded = True

    def check(self) -> None:
        """Raise the last failure, unless writes have recovered from it.

        They have if one has succeeded since, and `RECOVERY_TIME` has passed.
        """
        if self._failure is None:
            return
        if self._succeeded and self._time() >= self._failed_at + RECOVERY_TIME:
            self._failure = None
            return
        raise NotWritable(str(self._failure))
