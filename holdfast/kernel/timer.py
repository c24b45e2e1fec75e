"""Timers that release everything once they are cancelled.

asyncio keeps a cancelled timer, with its context, until its time has come. The context of a run
would keep everything it refers to alive for minutes after the run has ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import TypeVarTuple

Ts = TypeVarTuple("Ts")


def call_later(
    loop: asyncio.AbstractEventLoop, seconds: float, function: Callable[[*Ts], object], *args: *Ts
) -> asyncio.TimerHandle:
    """Like `loop.call_later`: the function runs in a copy of the current context.

    The copy is an argument of the timer, and so is dropped when the timer is cancelled.
    """
    return loop.call_later(seconds, copy_context().run, function, *args, context=Context())
