"""Deterministic `Ports` for tests: time, ids and randomness are the same each time."""

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
    """A fresh world: the clock starts at a fixed moment, chance is seeded, ids count from `id-1`.

    Tools that are not `async` run on the event loop instead of in a thread, because virtual time
    cannot see threads: while one runs, nothing else does.
    """
    numbers = itertools.count(1)
    threads = _Inline()
    return Ports(
        now=(clock or Clock()).now,
        random=random.Random(seed).random,
        new_id=lambda: f"id-{next(numbers)}",
        in_thread=threads.in_thread,
        from_thread=threads.from_thread,
    )


class _Inline:
    """Threads that are none.

    What a function hands to `from_thread` is run, in order, when the function has returned or
    raised: it holds the loop until then, so nobody but the function itself can tell the difference.
    """

    def __init__(self) -> None:
        self._asked: list[Callable[[], Awaitable[None]]] | None = None

    async def in_thread(self, function: Callable[[], T]) -> T:
        await anyio.lowlevel.checkpoint()  # a real thread does not start when already cancelled
        asked: list[Callable[[], Awaitable[None]]] = []
        try:
            self._asked = asked
            try:
                return function()
            finally:
                self._asked = None
        finally:
            for ask in asked:
                await ask()

    def from_thread(self, function: Callable[[], Awaitable[None]]) -> None:
        if self._asked is None:
            raise RuntimeError("from_thread is for functions that run in in_thread")
        self._asked.append(function)
