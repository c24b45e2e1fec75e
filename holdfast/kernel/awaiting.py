"""Awaits what a function of the user returned.

A function that awaits a task or a future which was cancelled raises `CancelledError`, as if its own
task were cancelled. Passed on, it would end the task group around it without a word, and with it
every chat of the process. Here it becomes an error of the function.
"""

from __future__ import annotations

import asyncio
import inspect
from typing import Any


class StrayCancellation(Exception):
    """A function raised `CancelledError`, and nothing had cancelled it."""

    def __init__(self) -> None:
        super().__init__("it awaited a task or a future that was cancelled")


async def awaited(value: Any) -> Any:
    """The result of a function, whether or not it is `async`. Raises `StrayCancellation`."""
    if not inspect.isawaitable(value):
        return value
    try:
        return await value
    except asyncio.CancelledError as error:
        if is_cancelled():
            raise
        raise StrayCancellation from error


def is_cancelled() -> bool:
    """Whether something has cancelled the current task, and has not undone it."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0
