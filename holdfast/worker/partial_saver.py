"""Saves the partial answer at intervals while it arrives, so that a crash does not lose it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from holdfast.chat.errors import ChatError
from holdfast.chat.rows import Fence
from holdfast.kernel.assemble import Assembly
from holdfast.store.database import StoreError
from holdfast.worker.attempt_stream import Screen
from holdfast.worker.fenced_chat import FencedChat

LOG: Final = logging.getLogger("holdfast.worker")


class PartialSaver:
    """Saves the answer of one attempt after another.

    The timer is reused by later answers, so that short answers do not create one each.
    """

    def __init__(
        self,
        fenced: FencedChat,
        screen: Screen,
        interval: float,
        in_background: Callable[..., Any],
    ) -> None:
        self._fenced = fenced
        self._screen = screen
        self._interval = interval
        self._in_background = in_background
        self._assembly: Assembly | None = None
        """The answer that is arriving."""
        self._next_save = 0.0
        self._saved_size = 0
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, assembly: Assembly, now: float) -> None:
        """Start saving an answer."""
        self._assembly, self._saved_size = assembly, 0
        self._next_save = now + self._interval
        if self._timer is None:
            self._timer = self._loop.call_at(self._next_save, self._on_timer)

    def end(self) -> None:
        """Stop saving the answer."""
        self._assembly = None

    def close(self) -> None:
        """Cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()

    def _on_timer(self) -> None:
        self._timer, assembly = None, self._assembly
        if assembly is None:
            return
        now = self._loop.time()
        if now >= self._next_save:
            self._next_save = now + self._interval
            if assembly.size > self._saved_size:
                self._saved_size = assembly.size
                # The current fence: when this runs, the next attempt may have another.
                self._in_background(self._save, assembly, self._fenced.fence)
        self._timer = self._loop.call_at(self._next_save, self._on_timer)

    async def _save(self, assembly: Assembly, fence: Fence) -> None:
        message = assembly.so_far()
        if message is None or assembly.finish is not None:
            return
        try:
            await self._fenced.keep_partial(fence, self._screen.seq, message)
        except (StoreError, ChatError):
            LOG.info(
                "chat %s: could not save the partial answer", self._fenced.chat.id, exc_info=True
            )
