"""Completion of a transaction: the caller's wait for an outcome that it cannot withdraw."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, Generic, TypeVar

import anyio

from holdfast.store.database import OUTCOME, OutcomeUnknown

T = TypeVar("T")


class Answer(Generic[T]):
    """The outcome of a transaction. Set by the thread that runs it, then announced on the loop's
    thread.

    Cheaper than a future: the waiter is woken in the next iteration of the loop, not the one after.
    """

    __slots__ = ("error", "told", "value", "waiter")

    value: T

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self.told = False
        self.waiter: asyncio.Future[None] | None = None

    def tell(self) -> None:
        """Wake the waiter; the outcome is final."""
        self.told = True
        if self.waiter is not None:
            wake(self.waiter)

    def get(self) -> T:
        """Return the result, or raise the error."""
        if self.error is None:
            return self.value
        error, self.error = self.error, None
        try:
            raise error
        finally:
            del error  # its traceback refers to this frame


def wake(waiter: asyncio.Future[None]) -> None:
    """Complete a future, unless it is done."""
    if not waiter.done():
        waiter.set_result(None)


class Waits:
    """All waits for outcomes on one event loop, each limited to the same time.

    The first wait expires first, so one timer is enough for all, and most never need it.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, bound: float = OUTCOME) -> None:
        self._loop = loop
        self._bound = bound
        self._until: dict[Answer[Any], float] = {}
        self._timer: asyncio.TimerHandle | None = None

    async def answered(self, answer: Answer[T]) -> T:
        """Wait for an outcome.

        A cancelled caller keeps waiting until the limit, and is cancelled then. Otherwise
        `OutcomeUnknown` is raised at the limit.
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
        """Cancel the timer. No wait may be left."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        """Wake the waits that have expired, and set the timer for the next."""
        self._timer = None
        now = self._loop.time()
        for answer, until in self._until.items():
            if until > now:
                self._timer = self._loop.call_at(until, self._look)
                return
            if answer.waiter is not None:
                wake(answer.waiter)


async def outcome(future: asyncio.Future[T], bound: float = OUTCOME) -> T:
    """Wait in the same way for a future, which is never cancelled by this."""
    answer: Answer[T] = Answer()

    def done(_: object) -> None:
        if future.cancelled():  # not the caller's cancellation, and must not look like it
            answer.error = OutcomeUnknown("the task that ran it was cancelled")
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
    """Wait for an outcome through any cancellation of this task, up to a point in time."""
    loop = asyncio.get_running_loop()
    # Unless shielded, an anyio scope cancels again in every iteration of the loop.
    with anyio.CancelScope(shield=True):
        while not answer.told and (left := until - loop.time()) > 0:
            answer.waiter = loop.create_future()
            with suppress(asyncio.CancelledError):  # the first cancellation is on its way already
                await asyncio.wait((answer.waiter,), timeout=left)
