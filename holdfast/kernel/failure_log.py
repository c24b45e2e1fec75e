"""Log lines for failed attempts that are retried, and for failed turns."""

from __future__ import annotations

import logging
from typing import Final

from holdfast.kernel.errors import Failure, PrepareError

LOG: Final = logging.getLogger("holdfast")


def log_retry(
    failure: Failure, seconds: float, attempt: int, most: int, *, chat: str | None
) -> None:
    """Log at WARNING that attempt number `attempt` failed and that there will be another."""
    LOG.warning(
        "Retrying in %.2g s (attempt %d of %d): kind %s, chat %s, model %s: %s",
        seconds,
        attempt + 1,
        most,
        failure.kind,
        chat or "none",
        failure.model or "none",
        failure.detail or failure.message,
    )


def log_failure(
    failure: Failure,
    *,
    chat: str | None,
    model: str | None,
    attempt: int,
    cause: Exception | None = None,
) -> None:
    """Log a failed turn at WARNING. An error in our own code, or in a model or a hook that the user
    wrote, is logged with its traceback."""
    unexpected = failure.kind in ("internal", "unknown", "prepare")
    LOG.warning(
        "turn failed: kind %s, chat %s, model %s, attempt %d: %s",
        failure.kind,
        chat or "none",
        failure.model or model or "none",
        attempt,
        failure.detail or failure.message,
        exc_info=raised_by_user(cause) if unexpected else None,
    )


def raised_by_user(cause: Exception | None) -> Exception | None:
    """The exception that a hook raised, if that ended a turn; otherwise the cause itself."""
    if isinstance(cause, PrepareError):
        return cause.__cause__ if isinstance(cause.__cause__, Exception) else None
    return cause
