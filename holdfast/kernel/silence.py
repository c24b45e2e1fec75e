"""The guard against a stream that says nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf

from holdfast.kernel.policy import Stream


class Silence:
    """Cancels a stream that says nothing for too long.

    An event only stores when it came; the one timer, when it fires early, waits for what is left.
    The timer outlives a stream, so that a run of short streams does not pay for one each.
    """

    def __init__(self, limits: Stream) -> None:
        self.clock = asyncio.get_running_loop().time
        self.last = 0.0
        """When something was heard."""
        self.patience = 0.0
        self.waits_for_reader = False
        """It is our reader that is slow, not the provider."""
        self.fired = False
        self._limits = limits
        self._cancel: Callable[[], object] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._due = inf
        """When the timer fires."""

    def arm(self, cancel: Callable[[], object]) -> None:
        """Begin to listen to a stream."""
        self._cancel = cancel
        self.fired = self.waits_for_reader = False
        self.expect(self._limits.first_event)

    def expect(self, seconds: float) -> None:
        """From now on an event must come within this long."""
        last = self.last = self.clock()
        self.patience = seconds
        if self._due > last + seconds:
            self._wait(seconds)

    def disarm(self) -> None:
        self._cancel = None

    def close(self) -> None:
        """Leave no timer behind."""
        self._cancel = None
        if self._timer is not None:
            self._timer.cancel()

    def _wait(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._due = self.clock() + seconds
        self._timer = asyncio.get_running_loop().call_later(seconds, self._check)

    def _check(self) -> None:
        self._timer, self._due = None, inf
        if self._cancel is None:
            return
        left = self.last + self.patience - self.clock()
        if self.waits_for_reader:
            left = self.patience
        if left > 0:
            self._wait(left)
        else:
            self.fired = True
            self._cancel()
