"""A virtual loop on which answers come late: each descriptor by a little, at random.

A test that takes the order for granted in which databases and peers answer passes for months, and
fails on a busy machine. `LATE_IO=1 make test` looks for such tests; each number is another order.
"""

from __future__ import annotations

import random
import time
from selectors import SelectorKey
from typing import Any, Final

from holdfast.testing import VirtualLoop
from holdfast.testing.virtual_time import Selector

LATE: Final = (0.0, 0.0, 0.0005, 0.002, 0.006, 0.015)
"""Seconds, one of which each readiness is late. Real ones: virtual time does not pass meanwhile."""
PAUSE: Final = 0.0001


class LateSelector(Selector):
    """Holds back what is ready for as long as was drawn for it."""

    def __init__(self, loop: VirtualLoop, chance: random.Random) -> None:
        super().__init__(loop)
        self._chance = chance
        self._due: dict[int, float] = {}

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        ready = self.poll()
        if not ready:
            self._due.clear()
            if timeout is not None and timeout <= 0:
                return []
            ready = super().select(timeout)
        told = [one for one in ready if self._is_due(one[0].fd)]
        for key, _ in told:
            del self._due[key.fd]
        if ready and not told:
            time.sleep(PAUSE)
        self._chance.shuffle(told)
        return told

    def unregister(self, fileobj: Any) -> SelectorKey:
        key = super().unregister(fileobj)
        self._due.pop(key.fd, None)  # the next one may get the same number
        return key

    def _is_due(self, fd: int) -> bool:
        now = time.monotonic()
        return self._due.setdefault(fd, now + self._chance.choice(LATE)) <= now


def late_loop(seed: str) -> type[VirtualLoop]:
    """A kind of loop whose order of things follows from the seed and from how quick they are."""
    chance = random.Random(seed)

    class LateLoop(VirtualLoop):
        def _make_selector(self) -> Selector:
            return LateSelector(self, chance)

    return LateLoop
