"""When to ask again, and how long to wait before. Pure."""

from __future__ import annotations

from typing import Final

FIRST: Final = 0.25
MOST: Final = 10.0
"""Seconds before the first and, at the most, before any further attempt."""

PASSING: Final = frozenset((408, 425, 429, 500))
AWAY: Final = frozenset((502, 503, 504))
"""What is said when the server, or its database, is not there just now."""


def delay(failures: int, random: float) -> float:
    """Seconds to wait after so many failures in a row. `random` in [0, 1) spreads those who were
    all cut off at once: from half of it to all of it."""
    longest = min(MOST, FIRST * 2.0 ** min(failures - 1, 16))
    return longest * (0.5 + random / 2)


def may_pass(status: int) -> bool:
    """Whether a stream that is answered this may be answered otherwise in a while."""
    return status in PASSING or status in AWAY or status >= 500
