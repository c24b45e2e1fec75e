"""Options of a worker: one frozen value, validated when it is built. Times are in seconds."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import Final

from msgspec import Struct

from holdfast.kernel.errors import ConfigError

MICRO: Final = 1_000_000


class WorkerOptions(Struct, frozen=True, kw_only=True):
    """How a process drives chats: capacity, lease, polling and shutdown.

    These defaults are the only ones: the command line and the documentation read them from here.
    """

    heartbeat: float = 5.0
    """Interval of a worker's heartbeat, which writes one row for all of its chats."""
    lease: float = 15.0
    """Time without a heartbeat after which a worker loses its chats to the others."""
    poll: float = 5.0
    """Polling interval; bounds the delay after a lost notice."""
    chats: int = 64
    """Maximum number of root chats that a process drives at once."""
    children: int = 64
    """Maximum number of child chats that a process drives at once, counted separately so that a
    parent never takes the room of its children."""
    batch: int = 16
    """Maximum number of chats per claim, so that other processes get some too."""
    hold: float = 30.0
    """If the next retry is further away than this, the worker releases the chat, so that an outage
    cannot occupy all workers."""
    grace: float = 30.0
    """How long running steps may continue after the process was asked to stop."""
    partial: float = 1.0
    """Interval at which the partial answer is saved."""
    troubles: int = 3
    """Number of consecutive internal errors after which a chat fails."""
    stranded: float = 60.0
    """How long a chat waits before it is reported as stranded: no live worker has its agent."""

    def __post_init__(self) -> None:
        if problems := "; ".join(self._problems()):
            raise ConfigError(problems)

    def _problems(self) -> Iterator[str]:
        """Yield every invalid option, so that all can be fixed together.

        TOML has `nan`, for which every comparison is false, and `inf`.
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
