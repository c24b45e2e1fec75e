"""The trace context of a caller, as W3C's `traceparent`: what a trace of a later turn links to.

It is the current OpenTelemetry span of this process, if there is one, or else the span that an HTTP
request names. OpenTelemetry is never imported for this: without it there is no current span.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

TRACEPARENT: Final = "traceparent"
"""The HTTP header with the trace context of the sender."""
_PATTERN: Final = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_SENDER: Final[ContextVar[str | None]] = ContextVar("sender", default=None)


@contextmanager
def sent_by(traceparent: str | None) -> Iterator[None]:
    """Work in the block was requested by the sender of this header. An invalid one is ignored."""
    if traceparent is None or not _PATTERN.fullmatch(traceparent):
        yield
        return
    token = _SENDER.set(traceparent)
    try:
        yield
    finally:
        _SENDER.reset(token)


def caller_trace() -> str | None:
    """The trace context of the caller; None without one."""
    api = sys.modules.get("opentelemetry.trace")
    if api is not None:
        span = api.get_current_span().get_span_context()
        if span.is_valid:
            return f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags:02x}"
    return _SENDER.get()
