"""Retry decision: whether and when a failed model call is retried. Pure, and the only place."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TypeAlias, Union

from msgspec import Struct
from msgspec.structs import replace

from holdfast.kernel.errors import Failure
from holdfast.kernel.policy import Retry


class Wait(Struct, frozen=True):
    """Retry after this many seconds."""

    seconds: float


class GiveUp(Struct, frozen=True):
    """Do not retry."""

    failure: Failure
    """The failure that ends the turn; its message says why there is no other attempt."""


RetryDecision: TypeAlias = Union[Wait, GiveUp]


def after(
    failure: Failure, attempt: int, policy: Retry, *, random: float, now: int
) -> RetryDecision:
    """Decide what follows after attempt number `attempt` (from 1) failed.

    `random` is uniform in [0, 1), `now` is the wall clock in microseconds.
    """
    if not failure.retryable:
        return GiveUp(failure)
    if attempt >= most(failure, policy):
        return _give_up(failure, f"Given up after {attempt} attempts." if attempt > 1 else "")
    if failure.retry_after is not None and failure.retry_after > 0:
        if failure.retry_after > policy.max_retry_after:
            return _give_up(failure, f"It asks to retry {_moment(now, failure.retry_after)}.")
        return Wait(failure.retry_after)
    # Exponents beyond the cap would overflow a float long before a wait could be that long.
    ceiling = min(policy.max_delay, policy.first_delay * 2.0 ** min(attempt - 1, 60))
    return Wait(ceiling * random)


def most(failure: Failure, policy: Retry) -> int:
    """Maximum number of attempts at a call that fails like this."""
    return policy.attempts if failure.attempts is None else min(policy.attempts, failure.attempts)


def _give_up(failure: Failure, why: str) -> GiveUp:
    return GiveUp(replace(failure, message=f"{failure.message} {why}") if why else failure)


def _moment(now: int, seconds: float) -> str:
    try:
        at = datetime.fromtimestamp(now / 1_000_000 + seconds, UTC)
    except (OverflowError, ValueError, OSError):  # a provider may ask for any number
        return "much later"
    return f"after {at:%Y-%m-%d %H:%M:%S} UTC"
