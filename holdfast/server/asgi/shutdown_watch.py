"""Notices that the web server stops, so that streams end before it waits for them.

uvicorn closes its sockets first, then waits for open responses, and runs the shutdown of the
application's lifespan last. An open stream would make it wait for ever, and nothing that ASGI has
tells the stream. What tells is `should_exit` of its `Server`, which signals and programs set. The
server of an event loop is found in the coroutine of the task that runs it: unlike handlers of
signals, this also finds one that runs in a thread.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

CHECK_INTERVAL: Final = 0.25
"""Seconds between two checks, while streams are open."""


class ShutdownWatch:
    """Calls back once when the web server of this event loop begins to stop."""

    def __init__(self, on_stop: Callable[[], None]) -> None:
        self._on_stop = on_stop
        self._servers: list[Any] = []
        self._streams = 0
        self._timer: asyncio.TimerHandle | None = None

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch while this block runs."""
        self._streams += 1
        if self._streams == 1:
            self._servers = uvicorn_servers()
            self._check()
        try:
            yield
        finally:
            self._streams -= 1
            if not self._streams and self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def _check(self) -> None:
        self._timer = None
        if any(server.should_exit for server in self._servers):
            self._on_stop()
        elif self._servers:
            self._timer = asyncio.get_running_loop().call_later(CHECK_INTERVAL, self._check)


def uvicorn_servers() -> list[Any]:
    """The uvicorn servers that run in this event loop."""
    uvicorn = sys.modules.get("uvicorn")
    if uvicorn is None:
        return []
    # Locals are read of its own frames only: until Python 3.13, a frame keeps what was read.
    file = uvicorn.Server.serve.__code__.co_filename
    frames = (frame for task in asyncio.all_tasks() for frame in _frames(task.get_coro()))
    owners = (f.f_locals.get("self") for f in frames if f.f_code.co_filename == file)
    return [owner for owner in owners if isinstance(owner, uvicorn.Server)]


def _frames(awaited: Any) -> Iterator[Any]:
    """The frames of a coroutine, and of those that it awaits."""
    while (frame := getattr(awaited, "cr_frame", None)) is not None:
        yield frame
        awaited = awaited.cr_await
