"""The log line for a failed turn."""

from __future__ import annotations

import logging
from typing import Final

from holdfast.kernel.errors import Failure

LOG: Final = logging.getLogger("holdfast")


def log_failure(
    failure: Failure,
    *,
    chat: str | None,
    model: str | None,
    attempt: int,
    cause: Exception | None = None,
) -> None:
    """Log a failed turn at WARNING. An error in our own code, or in a model that the user wrote, is
    logged with its traceback."""
    unexpected = failure.kind in ("internal", "unknown")
    LOG.warning(
        "turn failed: kind %s, chat %s, model %s, attempt %d: %s",
        failure.kind,
        chat or "none",
        failure.model or model or "none",
        attempt,
        failure.detail or failure.message,
        exc_info=cause if unexpected else None,
    )
