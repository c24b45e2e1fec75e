"""A cancel scope that cancels its task once: `asyncio.timeout` without the timeout.

Unlike in an anyio scope, which cancels again at every await, the code inside can clean up: a model
can close its connection. Code that swallows the cancellation and continues to wait is cancelled
again after a while.
"""

from __future__ import annotations

import asyncio
from types import TracebackType

from holdfast.kernel.timer import call_later


class CancelOnce:
    """Enter it in the task to be cancelled; call `cancel` from anywhere in the same event loop."""

    __slots__ = ("_again", "_before", "_called", "_loop", "_made", "_task", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop, again: float) -> None:
        self._loop = loop
        self._again = again
        """Seconds after which the task is cancelled again."""
        self._task: asyncio.Task[object] | None = None
        self._before = 0
        self._made = 0
        """Number of cancellations requested by this scope."""
        self._called = False
        self._timer: asyncio.TimerHandle | None = None

    def cancel(self) -> None:
        if not self._called:
            self._called = True
            # Not now: if this very task is running, the cancellation would arrive too late,
            # after it left the block.
            self._loop.call_soon(self._fire)

    def _fire(self) -> None:
        if self._task is not None:
            self._made += 1
            self._task.cancel()
            self._timer = call_later(self._loop, self._again, self._fire)

    def __enter__(self) -> CancelOnce:
        self._task = asyncio.current_task(self._loop)
        assert self._task is not None
        self._before = self._task.cancelling()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        """Suppress this scope's own cancellation; let any other pass."""
        task, self._task = self._task, None
        if not self._made:
            return False
        assert task is not None
        if self._timer is not None:
            self._timer.cancel()
        left = 0
        for _ in range(self._made):
            left = task.uncancel()
        return kind is asyncio.CancelledError and left <= self._before
