"""Deterministic `Ports` for tests: time, ids and randomness are the same in each run."""

from __future__ import annotations

import itertools
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio.lowlevel

from holdfast.kernel.ports import Ports
from holdfast.testing.virtual_time import Clock

T = TypeVar("T")


def ports(seed: int = 0, *, clock: Clock | None = None) -> Ports:
    """New ports: the clock starts at a fixed moment, randomness is seeded, ids count from `id-1`.

    Tools that are not `async` run on the event loop instead of in a thread, because virtual time
    cannot observe threads. While such a tool runs, nothing else does.
    """
    numbers = itertools.count(1)
    threads = _InlineThreads()
    return Ports(
        now=(clock or Clock()).now,
        random=random.Random(seed).random,
        new_id=lambda: f"id-{next(numbers)}",
        in_thread=threads.in_thread,
        from_thread=threads.from_thread,
    )


class _InlineThreads:
    """Replaces threads: runs their functions on the event loop.

    Functions passed to `from_thread` run, in order, when the thread's function has returned or
    raised. It blocks the loop until then, so no other code can observe the difference.
    """

    def __init__(self) -> None:
        self._pending: list[Callable[[], Awaitable[None]]] | None = None

    async def in_thread(self, function: Callable[[], T]) -> T:
        await anyio.lowlevel.checkpoint()  # a real thread does not start when already cancelled
        pending: list[Callable[[], Awaitable[None]]] = []
        try:
            self._pending = pending
            try:
                return function()
            finally:
                self._pending = None
        finally:
            for job in pending:
                await job()

    def from_thread(self, function: Callable[[], Awaitable[None]]) -> None:
        if self._pending is None:
            raise RuntimeError("from_thread is for functions that run in in_thread")
        self._pending.append(function)
