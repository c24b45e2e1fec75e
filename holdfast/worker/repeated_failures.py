"""Log lines for the failures of a worker's periodic tasks: once for each outage."""

from __future__ import annotations

import logging
from typing import Final

LOG: Final = logging.getLogger("holdfast.worker")


class FailureLog:
    """Logs a failure when it begins, when its reason changes and when it is over.

    A worker retries every few seconds: one line per attempt would hide the useful one.
    """

    def __init__(self, worker: str) -> None:
        self._worker = worker
        self._reasons: dict[str, str] = {}

    def failed(self, task: str, error: Exception) -> None:
        reason = str(error)
        is_new = self._reasons.get(task) != reason
        self._reasons[task] = reason
        level = logging.WARNING if is_new else logging.DEBUG
        LOG.log(level, "worker %s cannot %s: %s", self._worker, task, reason)

    def succeeded(self, task: str) -> None:
        if self._reasons.pop(task, None) is not None:
            LOG.warning("worker %s can %s again", self._worker, task)
