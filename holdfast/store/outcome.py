"""The caller's wait for a transaction that it has handed over and cannot withdraw."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, Generic, TypeVar

import anyio

from holdfast.store.database import OUTCOME, OutcomeUnknown

T = TypeVar("T")


class Answer(Generic[T]):
    """What became of a transaction. Filled in by whoever runs it, then told on the loop's thread.

    Cheaper than a future: whoever waits is woken in the next turn of the loop, not the one after.
    """

    __slots__ = ("error", "told", "value", "waiter")

    value: T

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self.told = False
        self.waiter: asyncio.Future[None] | None = None

    def tell(self) -> None:
        """Wake whoever waits; what was filled in is final."""
        self.told = True
        if self.waiter is not None:
            wake(self.waiter)

    def get(self) -> T:
        if self.error is None:
            return self.value
        error, self.error = self.error, None
        try:
            raise error
        finally:
            del error  # its traceback refers to this frame


def wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


class Waits:
    """Those who wait for answers on one event loop, none of them longer than a bound.

    Whoever came first is due first, so that one timer is enough for all, and most never need it.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, bound: float = OUTCOME) -> None:
        self._loop = loop
        self._bound = bound
        self._until: dict[Answer[Any], float] = {}
        self._timer: asyncio.TimerHandle | None = None

    async def answered(self, answer: Answer[T]) -> T:
        """Wait for an answer.

        A caller that is cancelled waits on, at most until the bound has passed since the call, and
        is cancelled then. `OutcomeUnknown` when the bound passes for one that is not.
        """
        loop = self._loop
        waiter = answer.waiter = loop.create_future()
        until = self._until[answer] = loop.time() + self._bound
        if self._timer is None:
            self._timer = loop.call_at(until, self._look)
        try:
            await waiter
        except asyncio.CancelledError:
            await _told(answer, until)
            raise
        finally:
            del self._until[answer]
        if not answer.told:
            raise OutcomeUnknown(f"there was no answer within {self._bound:g} s")
        return answer.get()

    def close(self) -> None:
        """Leave no timer behind. Nobody may wait any more."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        """Wake whoever is due, and come back for the next."""
        self._timer = None
        now = self._loop.time()
        for answer, until in self._until.items():
            if until > now:
                self._timer = self._loop.call_at(until, self._look)
                return
            if answer.waiter is not None:
                wake(answer.waiter)


async def outcome(future: asyncio.Future[T], bound: float = OUTCOME) -> T:
    """The same for a future, which this neither cancels nor lets be cancelled."""
    answer: Answer[T] = Answer()

    def done(_: object) -> None:
        if future.cancelled():  # not the caller's cancellation, and must not look like it
            answer.error = OutcomeUnknown("whoever ran it was stopped")
        elif (error := future.exception()) is not None:
            answer.error = error
        else:
            answer.value = future.result()
        answer.tell()

    future.add_done_callback(done)
    waits = Waits(asyncio.get_running_loop(), bound)
    try:
        return await waits.answered(answer)
    finally:
        waits.close()


async def _told(answer: Answer[Any], until: float) -> None:
    """Wait for an answer whoever else cancels this task meanwhile, but not beyond a time."""
    loop = asyncio.get_running_loop()
    # An anyio scope cancels again and again, in every turn of the loop, unless it is shielded from.
    with anyio.CancelScope(shield=True):
        while not answer.told and (left := until - loop.time()) > 0:
            answer.waiter = loop.create_future()
            with suppress(asyncio.CancelledError):  # the first one is on its way already
                await asyncio.wait((answer.waiter,), timeout=left)
