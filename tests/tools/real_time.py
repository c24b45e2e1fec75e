"""Tests that wait for processes: their time is not virtual."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec

from holdfast.testing import no_leaked_tasks

P = ParamSpec("P")


def in_real_time(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run an async test on an event loop whose time is that of the processes it waits for."""

    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        with asyncio.Runner() as runner:
            runner.run(no_leaked_tasks()(test)(*args, **kwargs))

    return run
