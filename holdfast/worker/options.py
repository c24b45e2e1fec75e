"""How a worker behaves: one frozen value, checked when it is built. Times are in seconds."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import Final

from msgspec import Struct

from holdfast.kernel.errors import ConfigError

MICRO: Final = 1_000_000


class WorkerOptions(Struct, frozen=True, kw_only=True):
    """How a process drives chats: how many, how it shows that it lives, and how it ends.

    The same numbers are used wherever they matter: by claims, by notices, by documents.
    """

    heartbeat: float = 5.0
    """How often a worker says that it is alive: one row for all of its chats."""
    lease: float = 15.0
    """A worker that was not heard of for this long loses its chats to the others."""
    poll: float = 5.0
    """The net under notices: one that is lost costs at most this long."""
    chats: int = 64
    """How many chats a process drives at once."""
    children: int = 64
    """... and how many that other chats have spawned: a parent never waits for room of its own."""
    batch: int = 16
    """How many chats are claimed at once, where other processes may want some too."""
    hold: float = 30.0
    """A longer wait for the next attempt belongs to nobody, so that an outage fills no worker."""
    grace: float = 30.0
    """How long steps in flight may go on once the process was told to stop."""
    partial: float = 1.0
    """How often what has arrived of an answer is written down."""
    troubles: int = 3
    """Unexpected errors of our own in a row after which a chat fails."""
    stranded: float = 60.0
    """A chat that no live worker knows the agent of says so after this long."""

    def __post_init__(self) -> None:
        if found := "; ".join(self._mistakes()):
            raise ConfigError(found)

    def _mistakes(self) -> Iterator[str]:
        """All of them: whoever mends one is not to be told of the next.

        TOML has `nan`, which is neither more nor less than anything, and `inf`.
        """
        for name in ("heartbeat", "lease", "poll", "hold", "partial", "stranded"):
            if not 0 < getattr(self, name) < inf:
                yield f"{name} is {getattr(self, name)!r}: use seconds, more than 0"
        for name in ("chats", "children", "batch", "troubles"):
            if not 1 <= getattr(self, name) < inf:
                yield f"{name} is {getattr(self, name)!r}: use at least 1"
        if not 0 <= self.grace < inf:
            yield f"grace is {self.grace!r}: use seconds, or 0 for none"
        if 0 < self.lease < 3 * self.heartbeat:
            yield (
                f"lease is {self.lease:g} s and heartbeat {self.heartbeat:g}: a lease shorter than "
                "three heartbeats would take chats from a worker that is only slow"
            )
