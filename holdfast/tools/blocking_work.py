"""Runs short blocking work of a tool in a thread, without blocking the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")

SMALL: Final = 64 * 1024
"""Bytes that are worked on in less time than it takes to change threads."""


async def to_end(function: Callable[[], T]) -> T:
    """Run a function in a thread until it has ended, even if the call is cancelled meanwhile.

    A thread cannot be stopped. Reading or writing a file takes a moment, so we wait for it and keep
    its result: an interrupted call reports what was done, not that it may have been done. A second
    cancellation does not wait.
    """
    # asyncio's shield: a tool is cancelled directly, which an anyio shield does not hold off.
    work = asyncio.get_running_loop().run_in_executor(None, function)
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        if work.cancelled():  # the executor is being shut down
            raise
        return await asyncio.shield(work)


async def compute(function: Callable[[], T], size: int) -> T:
    """Compute something from this many bytes: here if they are few, otherwise in a thread."""
    return function() if size <= SMALL else await to_end(function)
