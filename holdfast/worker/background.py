"""Background tasks of a runner, which run next to its step."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from anyio.abc import TaskGroup

from holdfast.worker.resettable_event import ResettableEvent


class BackgroundTasks:
    """Starts background tasks next to the step.

    Timer callbacks add tasks, too, and anyio cannot start tasks in them; hence the queue.
    """

    def __init__(self) -> None:
        self._queue: list[partial[Coroutine[Any, Any, None]]] = []
        self._added = ResettableEvent()

    def add(self, work: Callable[..., Coroutine[Any, Any, None]], *args: object) -> None:
        """Queue a function to be run as a task."""
        self._queue.append(partial(work, *args))
        self._added.set()

    async def run(self, group: TaskGroup) -> None:
        """Start queued tasks, until cancelled."""
        try:
            while True:
                await self._added.wait()
                self._added.reset()
                while self._queue:
                    group.start_soon(without_cycle, self._queue.pop(0))
        finally:
            self._queue.clear()  # avoids a reference cycle


async def without_cycle(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a child of a task group so that its cancellation keeps no references.

    anyio leaves the `CancelledError` of a child in a reference cycle, with every frame of its
    traceback. Here that would be the runner with its whole history.
    """
    try:
        await work()
    except asyncio.CancelledError as error:
        del work
        raise error.with_traceback(None) from None
