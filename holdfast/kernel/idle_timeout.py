"""Idle timeout of a stream that sends nothing, or nothing but pings."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf

from holdfast.kernel.errors import StreamSilent
from holdfast.kernel.policy import Stream
from holdfast.kernel.timer import call_later


class IdleTimeout:
    """Cancels a stream that sends no event, or no content, for too long.

    An event only stores its time; when the one timer fires early, it is set again for the rest. The
    timer outlives a stream, so that many short streams share one.
    """

    def __init__(self, limits: Stream) -> None:
        self.clock = asyncio.get_running_loop().time
        self.last = 0.0
        """Time of the last event."""
        self.content = 0.0
        """Time of the last content: an event that is shown, not a ping."""
        self.timeout = 0.0
        """Seconds until the next event is overdue."""
        self.waits_for_reader = False
        """Whether the run waits for its own slow reader, not for the provider."""
        self.fired = False
        self._limits = limits
        self._without_content = limits.without_content
        self._cancel: Callable[[], object] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._due = inf
        """Time at which the timer fires."""

    def arm(self, cancel: Callable[[], object]) -> None:
        """Start the timeout for a new stream."""
        self._cancel = cancel
        self.fired = self.waits_for_reader = False
        self.expect(self._limits.first_event)

    def expect(self, seconds: float) -> None:
        """Set the timeout for the next event; content has its own."""
        last = self.last = self.content = self.clock()
        self.timeout = seconds
        left = self._due - last
        if left > seconds or left > self._without_content:  # min() is slower, on a frequent path
            self._wait(min(seconds, self._without_content))

    def error(self) -> StreamSilent:
        """The error of the stream once this has `fired`."""
        if self.last + self.timeout < self.content + self._limits.without_content:
            return StreamSilent(self.timeout)
        return StreamSilent(self._limits.without_content, "content")

    def disarm(self) -> None:
        self._cancel = None

    def close(self) -> None:
        """Cancel the timer."""
        self._cancel = None
        if self._timer is not None:
            self._timer.cancel()

    def _wait(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._due = self.clock() + seconds
        self._timer = call_later(asyncio.get_running_loop(), seconds, self._check)

    def _check(self) -> None:
        self._timer, self._due = None, inf
        if self._cancel is None:
            return
        bound = self._limits.without_content
        left = min(self.last + self.timeout, self.content + bound) - self.clock()
        if self.waits_for_reader:
            left = min(self.timeout, bound)
        if left > 0:
            self._wait(left)
        else:
            self.fired = True
            self._cancel()
