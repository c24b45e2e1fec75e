"""The call of a hook: an interrupt ends it, and an exception becomes a `PrepareError`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from math import inf
from typing import Any

import anyio

from holdfast.kernel.errors import PrepareError, describe
from holdfast.kernel.inbox import Interrupted, Interruption


async def call_hook(
    name: str,
    interruption: Interruption,
    hook: Callable[..., Any],
    *args: object,
    seconds: float = inf,
) -> Any:
    """Call a hook. A failure, or no answer after so many seconds, becomes a `PrepareError`, which
    is retried. Raises `Interrupted`."""
    try:
        answer = hook(*args)
        if not inspect.isawaitable(answer):
            return answer
        with anyio.move_on_after(seconds) as scope, interruption.stops(scope.cancel):
            if interruption.requested:
                scope.cancel()
            return await answer
    except Exception as error:
        raise PrepareError(f"{name} failed: {describe(error)}") from error
    if interruption.requested:
        raise Interrupted
    raise PrepareError(f"{name} took longer than {seconds:g} s")
