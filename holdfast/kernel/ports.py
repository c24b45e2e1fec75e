"""Ports: the kernel's access to the outside world, as one value that is passed in.

Wall clock, randomness, ids and threads come from here and from nowhere else in the kernel, so that
a test (or a simulator) controls them. Timers are the event loop's.
"""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from msgspec import Struct

T = TypeVar("T")


def wall_clock() -> int:
    """Current time in microseconds since 1970, UTC."""
    return time.time_ns() // 1_000


def new_id() -> str:
    """A new UUID of version 7: later ones sort after earlier ones."""
    from uuid import UUID  # slow to import, and most runs need no id

    number = int.from_bytes(os.urandom(10)) | (time.time_ns() // 1_000_000) << 80
    number = number & ~(0xF << 76) | 7 << 76
    return str(UUID(int=number & ~(0x3 << 62) | 2 << 62))


def uniform() -> float:
    """A random number, uniform in [0, 1)."""
    from random import random

    return random()


async def in_thread(function: Callable[[], T]) -> T:
    """Run a blocking function in a thread. If cancelled, the thread is abandoned."""
    from anyio import to_thread

    return await to_thread.run_sync(function, abandon_on_cancel=True)


def from_thread(function: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a coroutine function on the event loop from inside `in_thread`, and wait for its end."""
    from anyio import from_thread

    from_thread.run(function)


def wants_debug() -> bool:
    """`HOLDFAST_DEBUG`: whether errors of the caller show the frames of this library, too."""
    return os.environ.get("HOLDFAST_DEBUG", "").strip() not in ("", "0")


class Ports(Struct, frozen=True, kw_only=True):
    """The outside world as a run sees it. Tests pass their own: `holdfast.testing.ports()`."""

    now: Callable[[], int] = wall_clock
    """Wall clock in microseconds, UTC, for people. Durations are the event loop's."""
    random: Callable[[], float] = uniform
    """Random number, uniform in [0, 1)."""
    new_id: Callable[[], str] = new_id
    in_thread: Callable[[Callable[[], Any]], Awaitable[Any]] = in_thread
    """Runs tools that are not `async` in a thread."""
    from_thread: Callable[[Callable[[], Coroutine[Any, Any, None]]], None] = from_thread
