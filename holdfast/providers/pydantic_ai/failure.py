"""Converts exceptions of pydantic-ai into our errors. Pure."""

from __future__ import annotations

from typing import Final

from pydantic_ai import exceptions as theirs

from holdfast.kernel.errors import ConfigError, FailureKind, ProviderError
from holdfast.providers.failure import stream_error

_KINDS: Final[tuple[tuple[type[Exception], FailureKind], ...]] = (
    (theirs.ModelContextWindowExceededError, "context_overflow"),
    (theirs.ModelQuotaExceededError, "quota"),
    (theirs.ModelRateLimitError, "rate_limit"),
    (theirs.ModelUnavailableError, "overloaded"),
    (theirs.ModelServerError, "server"),
    (theirs.ModelRequestTimeout, "timeout"),
    (theirs.ModelTimeoutError, "timeout"),
    (theirs.ModelConnectionError, "network"),
    (theirs.ModelAuthenticationError, "auth"),
    (theirs.ModelNotFoundError, "not_found"),
    (theirs.ContentFilterError, "content_filter"),
    (theirs.ConcurrencyLimitExceeded, "overloaded"),
    (theirs.UnexpectedModelBehavior, "server"),  # an invalid answer: a retry may give a valid one
)
"""Kind of each exception class. The first match counts, so more exact ones come first."""


def translated(error: Exception, *, begun: bool) -> Exception:
    """Our error for an exception of pydantic-ai; other exceptions are returned unchanged.

    `begun`: whether content of the answer had arrived.
    """
    while isinstance(error, theirs.FallbackExceptionGroup):
        error = error.exceptions[-1]  # of several models, the last one that was tried
    if isinstance(error, theirs.UserError):
        return ConfigError(error.message)
    kind = next((kind for error_class, kind in _KINDS if isinstance(error, error_class)), None)
    if isinstance(error, theirs.ModelAPIError):
        return _provider_error(error, kind, begun)
    return ProviderError(str(error), kind=kind) if kind is not None else error


def _provider_error(
    error: theirs.ModelAPIError, kind: FailureKind | None, begun: bool
) -> ProviderError:
    body_error = stream_error(error.body, {}) if isinstance(error.body, dict) else None
    status = error.status_code if isinstance(error, theirs.ModelHTTPError) else None
    if kind == "network" and begun:
        kind = "stream_cut"
    if kind == "auth" and status == 403:
        kind = "permission"
    if kind is None and status is None:  # an unreadable answer, or an error inside it
        kind = (
            body_error.kind if body_error is not None and body_error.kind != "unknown" else "server"
        )
    retry_after = error.retry_after
    if retry_after is None and body_error is not None:
        retry_after = body_error.retry_after
    hint = error.provider_retry_hint if isinstance(error, theirs.ModelHTTPError) else None
    return ProviderError(
        (body_error.message if body_error is not None else "") or error.message,
        status=status,
        code=error.provider_error_code or error.provider_error_type,
        retry_after=retry_after,
        should_retry=hint,
        kind=kind,
        window=body_error.window if body_error is not None else None,
    )
