"""Signal handling of Ctrl-C: the first stops the run, the second ends the process."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def stopping(stop: Callable[[signal.Signals], None], leave: Callable[[], None]) -> Iterator[None]:
    """In this block, the first signal calls `stop`; the second calls `leave` and exits."""
    loop = asyncio.get_running_loop()
    stopped = False

    def handle(number: signal.Signals) -> None:
        nonlocal stopped
        if not stopped:
            stopped = True
            stop(number)
            return
        with suppress(Exception):  # a closed terminal must not keep us
            leave()
        # Not by an exception: the code that does not stop is what the user wants to end.
        # Commits are saved, and child commands end with us.
        os._exit(128 + number)

    # A signal that our parent process ignored (nohup, a background job) stays ignored.
    handled = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    for number in handled:
        loop.add_signal_handler(number, handle, number)
    try:
        yield
    finally:
        for number in handled:
            loop.remove_signal_handler(number)
