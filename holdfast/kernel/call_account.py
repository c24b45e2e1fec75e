"""The account of a tool call: what it charges, and what the runs within it use.

A run within a call reads there, before each model call, whether a limit of the outer run is
reached. It may do so in another thread. Only the call itself writes to its account, so that no
lock is needed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from holdfast.kernel.limits import LimitReached, Totals
from holdfast.kernel.messages import Usage


class CallAccount:
    """Usage of one tool call, and the limits that apply to it."""

    __slots__ = ("_interrupts", "_limit", "_outer", "steps", "stopped", "usage")

    def __init__(
        self, limit: Callable[[], LimitReached | None], outer: CallAccount | None = None
    ) -> None:
        self.usage: Usage | None = None
        self.steps = 0
        """Number of model answers of the runs within the call."""
        self.stopped = False
        """Whether the call was cancelled."""
        self._limit = limit
        self._outer = outer
        self._interrupts: list[tuple[asyncio.AbstractEventLoop, Callable[[], None]]] = []
        """Callbacks that interrupt the runs within the call, each with its event loop."""

    def charge(self, usage: Usage | None = None, steps: int = 0) -> None:
        """Count usage of the call, which is usage of every outer call, too."""
        if usage is not None:
            self.usage = usage if self.usage is None else self.usage + usage
        self.steps += steps
        if self._outer is not None:
            self._outer.charge(usage, steps)

    def limit(self) -> LimitReached | None:
        """The limit of the outer run that is reached, if any."""
        return self._limit()

    def enter(self, interrupt: Callable[[], None]) -> Callable[[], None]:
        """Have `stop` call `interrupt` on this event loop. Returns a function that undoes it."""
        entry = (asyncio.get_running_loop(), interrupt)
        self._interrupts.append(entry)
        return lambda: self._interrupts.remove(entry)

    def close(self) -> None:
        """Forget the limits, when the call has ended: they refer to the batch of the call."""
        self._limit = _no_limit

    def stop(self) -> None:
        """Interrupt the runs within the call, on other event loops: here, the call is cancelled."""
        self.stopped = True
        for loop, interrupt in tuple(self._interrupts):
            if loop is not asyncio.get_running_loop():
                with suppress(RuntimeError):  # the loop was closed
                    loop.call_soon_threadsafe(interrupt)


def _no_limit() -> None:
    return None


def totals_of(usage: Usage | None, steps: int) -> Totals:
    """Usage as limits count it, without its time."""
    if usage is None:
        return Totals(steps)
    return Totals(steps, usage.context, usage.cost or 0.0)
