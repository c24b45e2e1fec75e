"""Completion of a transaction, and the wait of its caller, who cannot withdraw it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, Generic, TypeVar

import anyio

from holdfast.store.database import OUTCOME_TIMEOUT, OutcomeUnknown

T = TypeVar("T")


class Completion(Generic[T]):
    """The outcome of a transaction: set by the thread that runs it, then announced on the loop.

    Faster than a future: the waiter is woken in the next iteration of the loop, not the one after.
    """

    __slots__ = ("announced", "error", "value", "waiter")

    value: T

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self.announced = False
        self.waiter: asyncio.Future[None] | None = None

    def announce(self) -> None:
        """Wake the waiter; the outcome is final."""
        self.announced = True
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
    """All waits for completions on one event loop, with the same timeout.

    Waits expire in the order in which they began, so one timer is enough for all.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, timeout: float = OUTCOME_TIMEOUT) -> None:
        self._loop = loop
        self._timeout = timeout
        self._deadlines: dict[Completion[Any], float] = {}
        self._timer: asyncio.TimerHandle | None = None

    async def wait(self, completion: Completion[T]) -> T:
        """Wait for a completion. Raises `OutcomeUnknown` after the timeout.

        A cancelled caller waits until the completion or the timeout, and is cancelled then.
        """
        loop = self._loop
        waiter = completion.waiter = loop.create_future()
        deadline = self._deadlines[completion] = loop.time() + self._timeout
        if self._timer is None:
            self._timer = loop.call_at(deadline, self._wake_expired)
        try:
            await waiter
        except asyncio.CancelledError:
            await _wait_despite_cancellation(completion, deadline)
            raise
        finally:
            del self._deadlines[completion]
        if not completion.announced:
            raise OutcomeUnknown(f"there was no answer within {self._timeout:g} s")
        return completion.get()

    def close(self) -> None:
        """Cancel the timer. All waits must have ended."""
        if self._timer is not None:
            self._timer.cancel()

    def _wake_expired(self) -> None:
        """Wake the waits that have expired, and set the timer for the next one."""
        self._timer = None
        now = self._loop.time()
        for completion, deadline in self._deadlines.items():
            if deadline > now:
                self._timer = self._loop.call_at(deadline, self._wake_expired)
                return
            if completion.waiter is not None:
                wake(completion.waiter)


async def wait_for(future: asyncio.Future[T], limit: float = OUTCOME_TIMEOUT) -> T:
    """Wait for a future as `Waits.wait` does. The future is never cancelled by this."""
    completion: Completion[T] = Completion()

    def done(_: object) -> None:
        if future.cancelled():  # must not look like a cancellation of the caller
            completion.error = OutcomeUnknown("the task that ran it was cancelled")
        elif (error := future.exception()) is not None:
            completion.error = error
        else:
            completion.value = future.result()
        completion.announce()

    future.add_done_callback(done)
    waits = Waits(asyncio.get_running_loop(), limit)
    try:
        return await waits.wait(completion)
    finally:
        waits.close()


async def _wait_despite_cancellation(completion: Completion[Any], deadline: float) -> None:
    """Wait for a completion until the deadline, even if this task is cancelled."""
    loop = asyncio.get_running_loop()
    # Unless shielded, an anyio scope cancels again in every iteration of the loop.
    with anyio.CancelScope(shield=True):
        while not completion.announced and (seconds := deadline - loop.time()) > 0:
            completion.waiter = loop.create_future()
            with suppress(asyncio.CancelledError):  # the caller raises the first cancellation later
                await asyncio.wait((completion.waiter,), timeout=seconds)
