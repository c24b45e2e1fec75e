"""The user's terminal, even when standard input and output are pipes."""

from __future__ import annotations

import asyncio
import os
import signal
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from holdfast.cli.output_stream import DEFAULT_WIDTH
from holdfast.cli.wrap import folded

POLL_INTERVAL: Final = 0.05
"""Polling interval in seconds for a terminal that the event loop cannot watch."""
READ_SIZE: Final = 4096


class Tty:
    """Writes to a terminal, and reads lines from it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @classmethod
    def open(cls) -> Tty | None:
        """The controlling terminal of this process; None if it has none."""
        try:
            return cls(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
        except OSError:  # no terminal
            return None

    @classmethod
    def open_in_foreground(cls) -> Tty | None:
        """Like `open`; None also for a background job, which would be stopped if it asked."""
        tty = cls.open()
        if tty is None or os.tcgetpgrp(tty._descriptor) == os.getpgrp():
            return tty
        tty.close()
        return None

    def write(self, text: str) -> None:
        """Write as it is: text of others has to be escaped before."""
        data = text.encode(errors="replace")
        while data:
            try:
                data = data[os.write(self._descriptor, data) :]
            except BlockingIOError:  # while a question is open
                from select import select

                select([], [self._descriptor], [])
            except OSError:  # the terminal was closed
                return

    async def ask(self, question: str) -> str | None:
        """Write a question and read the line that answers it; None at the end of the input.

        Ignores what was typed before. The terminal is always restored.
        """
        typed = b""
        question = self._fitted(question)
        try:
            with _cooked(self._descriptor), _on_return(lambda: self.write(question)):
                self.write(question)
                try:
                    while not typed.endswith(b"\n") and (chunk := await self._read()):
                        typed += chunk  # Ctrl-D after some text delivers it without a newline
                finally:
                    if not typed.endswith(b"\n"):
                        self.write("\n")
        except (OSError, termios.error):  # closed, or not ours to use
            return None
        return typed.decode(errors="replace").rstrip("\r\n") if typed else None

    def _fitted(self, question: str) -> str:
        try:
            width = os.get_terminal_size(self._descriptor).columns or DEFAULT_WIDTH
        except OSError:  # the terminal was closed
            return question
        return "\n".join(folded(question.rstrip(), width - 1)) + " " * question.endswith(" ")

    async def _read(self) -> bytes:
        """Read what was typed; empty at the end of the input, or if the terminal was closed."""
        while True:
            try:
                return os.read(self._descriptor, READ_SIZE)
            except BlockingIOError:
                await _readable(self._descriptor)
            except OSError:
                return b""

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Tty:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextmanager
def _cooked(descriptor: int) -> Iterator[None]:
    """Line editing with echo, without blocking. Input typed before or after the answer is
    dropped."""
    before, cooked = termios.tcgetattr(descriptor), termios.tcgetattr(descriptor)
    cooked[0] |= termios.ICRNL
    cooked[1] |= termios.OPOST
    cooked[3] |= termios.ICANON | termios.ECHO | termios.ISIG | termios.IEXTEN
    blocking = os.get_blocking(descriptor)
    try:
        termios.tcsetattr(descriptor, termios.TCSANOW, cooked)
        termios.tcflush(descriptor, termios.TCIFLUSH)
        os.set_blocking(descriptor, False)
        yield
    finally:
        os.set_blocking(descriptor, blocking)
        with suppress(termios.error):  # it may be closed
            termios.tcflush(descriptor, termios.TCIFLUSH)  # or a shell would run what was pasted
            termios.tcsetattr(descriptor, termios.TCSANOW, before)


@contextmanager
def _on_return(call: Callable[[], None]) -> Iterator[None]:
    """Call a function when the process resumes after Ctrl-Z."""
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGCONT, call)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGCONT)


async def _readable(descriptor: int) -> None:
    """Wait until there may be something to read."""
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    try:
        loop.add_reader(descriptor, _wake, ready)
    except OSError:  # some platforms cannot watch /dev/tty
        await asyncio.sleep(POLL_INTERVAL)
        return
    try:
        await ready
    finally:
        loop.remove_reader(descriptor)


def _wake(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)
