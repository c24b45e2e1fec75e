"""What Ctrl-C does: once, it stops what is going on; twice, it ends the process."""

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
    """The first signal in this block calls `stop`, the second `leave`, and then we are gone."""
    loop = asyncio.get_running_loop()
    asked = False

    def handle(number: signal.Signals) -> None:
        nonlocal asked
        if not asked:
            asked = True
            stop(number)
            return
        with suppress(Exception):  # a terminal that is gone does not keep us
            leave()
        # Not by an exception: whatever does not end by itself is what the user wants to get rid of.
        # What was committed is saved, and commands end when we do.
        os._exit(128 + number)

    # One that whoever started us had ignored (nohup, a job in the background) stays ignored.
    heard = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    for number in heard:
        loop.add_signal_handler(number, handle, number)
    try:
        yield
    finally:
        for number in heard:
            loop.remove_signal_handler(number)
