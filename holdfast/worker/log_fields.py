"""Fields of the log lines that are written while a chat is driven."""

from __future__ import annotations

from collections.abc import Mapping
from weakref import ref

from holdfast.worker.fenced_chat import FencedChat


class LogFields:
    """Fields for the log lines of a chat while it is driven.

    Contexts of tasks and timers, also in libraries, outlive the runner; they refer only to this.
    """

    def __init__(self, fenced: FencedChat, worker: str) -> None:
        self._fenced = ref(fenced)
        self._fixed_fields = {
            "chat": fenced.fence.chat,
            "worker": worker,
            "epoch": fenced.fence.epoch,
        }

    @property
    def log_fields(self) -> Mapping[str, object]:
        fenced = self._fenced()
        return (
            self._fixed_fields
            if fenced is None
            else {**self._fixed_fields, "attempt": fenced.fence.attempt}
        )
