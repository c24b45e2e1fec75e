"""Input to a running run: steering, follow-ups, interruption."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from holdfast.kernel.messages import Message


class Interrupted(Exception):
    """The run was interrupted while a model or a hook was awaited."""


class Interruption:
    """A requested interruption, and the callback that stops what runs right now."""

    def __init__(self) -> None:
        self.requested = False
        self.stop: Callable[[], object] | None = None

    def request(self) -> None:
        self.requested = True
        if self.stop is not None:
            self.stop()

    def reset(self) -> None:
        """Forget the request: what it interrupted has ended."""
        self.requested = False

    @contextmanager
    def stops(self, stop: Callable[[], object]) -> Iterator[None]:
        """Within the block, an interruption calls `stop`."""
        self.stop = stop
        try:
            yield
        finally:
            self.stop = None


class Inbox:
    """Messages that wait to be delivered, and the interruption."""

    def __init__(self) -> None:
        self.steering: list[Message] = []
        self.follow_ups: list[Message] = []
        self.interruption = Interruption()
        self.on_steer: Callable[[], object] | None = None
        """Callback for a new steering message."""
        self.closed = False

    def steer(self, message: Message) -> None:
        self.steering.append(message)
        if self.on_steer is not None:
            self.on_steer()

    @contextmanager
    def steers(self, steer: Callable[[], object]) -> Iterator[None]:
        """Within the block, a new steering message calls `steer`."""
        self.on_steer = steer
        try:
            yield
        finally:
            self.on_steer = None

    def take_steering(self) -> tuple[Message, ...]:
        taken, self.steering = tuple(self.steering), []
        return taken

    def take_follow_ups(self) -> tuple[Message, ...]:
        taken, self.follow_ups = tuple(self.follow_ups), []
        return taken
