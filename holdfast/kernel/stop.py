"""A block that somebody may stop: its task is cancelled once, and takes that back where it ends.

As `asyncio.timeout` does it, without the timeout. Unlike in an anyio scope, which cancels again at
every await, the code inside may clean up: a model closes its connection, as a tool cleans up after
itself. One that keeps the cancellation to itself and goes on waiting is cancelled again, in time.
"""

from __future__ import annotations

import asyncio
from types import TracebackType


class Stop:
    """Entered in the task that is to be stopped; `cancel` may be called by anybody in the loop."""

    __slots__ = ("_again", "_before", "_called", "_loop", "_made", "_task", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop, again: float) -> None:
        self._loop = loop
        self._again = again
        """Seconds after which it is cancelled once more."""
        self._task: asyncio.Task[object] | None = None
        self._before = 0
        self._made = 0
        """Cancellations that are ours."""
        self._called = False
        self._timer: asyncio.TimerHandle | None = None

    def cancel(self) -> None:
        if not self._called:
            self._called = True
            # Not now: it may be this very task that runs, and then it would be cancelled too late,
            # after it has left the block.
            self._loop.call_soon(self._fire)

    def _fire(self) -> None:
        if self._task is not None:
            self._made += 1
            self._task.cancel()
            self._timer = self._loop.call_later(self._again, self._fire)

    def __enter__(self) -> Stop:
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
        """Keep our own cancellation inside the block, and let any other pass."""
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
