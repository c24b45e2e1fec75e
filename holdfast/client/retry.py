"""Which responses to retry, and how long to wait before. Pure."""

from __future__ import annotations

from typing import Final

FIRST_DELAY: Final = 0.25
"""Seconds before the first retry."""
MAX_DELAY: Final = 10.0
"""Most seconds before any retry."""

TEMPORARY_STATUSES: Final = frozenset((408, 425, 429, 500))
"""Statuses of an overload or a temporary error."""
UNAVAILABLE_STATUSES: Final = frozenset((502, 503, 504))
"""Statuses while the server, or its database, is unavailable."""


def delay(failures: int, random: float) -> float:
    """Seconds to wait after so many failures in a row. `random` in [0, 1) varies it by half, to
    spread clients that lost their connections at once."""
    longest = min(MAX_DELAY, FIRST_DELAY * 2.0 ** min(failures - 1, 16))
    return longest * (0.5 + random / 2)


def may_pass(status: int) -> bool:
    """Whether a stream that got this status should be retried."""
    return status in TEMPORARY_STATUSES or status in UNAVAILABLE_STATUSES or status >= 500
