"""Kinds of failure: what each means, whether trying again may help, and what a person is told.

`classify` turns any exception into a `Failure`. It looks at structured facts first (status, the
provider's code, our own exception types) and at text last, and then only at text the provider
controls. Whether and when something is tried again is decided in `retry.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, Literal, get_args

from msgspec import Struct

FailureKind = Literal[
    "rate_limit",
    "overloaded",
    "quota",
    "auth",
    "permission",
    "not_found",
    "invalid_request",
    "context_overflow",
    "content_filter",
    "timeout",
    "stream_silent",
    "stream_cut",
    "stream_too_long",
    "empty_response",
    "network",
    "server",
    "prepare",
    "still_over_limit",
    "escalated",
    "invalid_output",
    "poison",
    "cancelled",
    "config",
    "internal",
    "unknown",
]


class KindFacts(Struct, frozen=True):
    retryable: bool
    failover: bool
    sentence: str
    """For people. `{model}` is who was asked."""


KINDS: Final[Mapping[FailureKind, KindFacts]] = {
    "rate_limit": KindFacts(True, True, "{model} is limiting how often it may be asked."),
    "overloaded": KindFacts(True, True, "{model} is overloaded."),
    "quota": KindFacts(
        False, True, "The quota or budget for {model} is used up: check its billing."
    ),
    "auth": KindFacts(False, False, "{model} did not accept the API key: check it."),
    "permission": KindFacts(
        False, False, "The API key may not use {model}: check its permissions."
    ),
    "not_found": KindFacts(False, False, "{model} does not exist, or not at this address."),
    "invalid_request": KindFacts(False, False, "{model} did not understand the request."),
    "context_overflow": KindFacts(False, False, "The conversation does not fit into {model}."),
    "content_filter": KindFacts(
        False, False, "{model} blocked its answer under its content policy."
    ),
    "timeout": KindFacts(True, True, "{model} took too long."),
    "stream_silent": KindFacts(True, True, "{model} went silent."),
    "stream_cut": KindFacts(True, True, "The connection to {model} ended before its answer did."),
    "stream_too_long": KindFacts(False, False, "{model} did not stop answering."),
    "empty_response": KindFacts(True, False, "{model} answered with nothing."),
    "network": KindFacts(True, True, "{model} cannot be reached."),
    "server": KindFacts(True, True, "{model} had an error of its own."),
    "prepare": KindFacts(True, False, "The request to {model} could not be prepared."),
    "still_over_limit": KindFacts(
        False,
        False,
        "The conversation is too long for {model}, also after summarizing: "
        "start a new one, or use a model with a larger window.",
    ),
    "escalated": KindFacts(False, False, "The stop guard ended the run."),
    "invalid_output": KindFacts(
        False, False, "{model} did not answer in the form that was asked for."
    ),
    "poison": KindFacts(False, False, "This conversation kept stopping whoever worked on it."),
    "cancelled": KindFacts(False, False, "The run was cancelled."),
    "config": KindFacts(False, False, "The agent is set up wrongly."),
    "internal": KindFacts(False, False, "An unexpected error ended the run."),
    "unknown": KindFacts(False, False, "{model} failed in a way that is not known."),
}

MAX_DETAIL: Final = 500


class Failure(Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True):
    """What went wrong, as facts. The message is for people, the detail for operators (redacted)."""

    kind: FailureKind
    message: str
    detail: str = ""
    retryable: bool = False
    failover: bool = False
    model: str | None = None
    status: int | None = None
    retry_after: float | None = None
    """Seconds that the provider asked us to wait."""
    window: int | None = None
    """The model's context limit, when the provider said it with an overflow."""


# --- What we raise ------------------------------------------------------------------------------


class HoldfastError(Exception):
    """Everything that holdfast raises on purpose."""


class ConfigError(HoldfastError, ValueError):
    """An option or an argument that cannot be right. The message says what to do."""


class ToolFailed(HoldfastError):
    """Raised by a tool to say in its own words why it failed: the model reads just these."""


class FormatError(HoldfastError, ValueError):
    """Stored JSON that cannot be read."""


class ModelError(HoldfastError):
    """A model call failed for a reason that we found ourselves."""

    kind: FailureKind = "unknown"
    sentence: str | None = None
    """For people, in place of the one of its kind, where there is more to say."""


class StreamSilent(ModelError):
    kind: FailureKind = "stream_silent"

    def __init__(self, seconds: float) -> None:
        super().__init__(f"no event for {seconds:g} s")
        self.seconds = seconds


class StreamCut(ModelError):
    kind: FailureKind = "stream_cut"

    def __init__(self) -> None:
        super().__init__("the stream ended without its final event")


class StreamTooLong(ModelError):
    kind: FailureKind = "stream_too_long"

    def __init__(self, limit: int, unit: str) -> None:
        super().__init__(f"the stream passed {limit} {unit}")
        self.limit = limit


class EmptyResponse(ModelError):
    kind: FailureKind = "empty_response"

    def __init__(self) -> None:
        super().__init__("neither text nor a tool call")


class ContentFiltered(ModelError):
    kind: FailureKind = "content_filter"

    def __init__(self, why: str = "the answer was filtered and nothing visible is left") -> None:
        super().__init__(why)


class StillOverLimit(ModelError):
    kind: FailureKind = "still_over_limit"

    def __init__(self, size: int, limit: int | None) -> None:
        over = f", and {limit} are allowed" if limit is not None else ""
        super().__init__(f"the next request has about {size} tokens{over}")
        self.size = size
        self.limit = limit


class PromptTooLong(StillOverLimit):
    """Nothing was answered yet: there is only what was asked, and nothing to summarize."""

    def __init__(self, size: int, window: int | None) -> None:
        # The size is an estimate: where it says that all would fit, the provider knew better.
        over = window if window is not None and window < size else None
        super().__init__(size, over)
        fit = f", and {over:,} fit" if over is not None else ""
        self.sentence = (
            f"The message is too long for {{model}}: about {size:,} tokens with instructions and "
            f"tools{fit}. Shorten it, in place or in a new conversation, or use a model with a "
            "larger window."
        )


class Escalated(ModelError):
    kind: FailureKind = "escalated"


class InvalidOutput(ModelError):
    kind: FailureKind = "invalid_output"

    def __init__(self, problems: Sequence[str], repairs: int) -> None:
        asked = f", also when asked again {repairs} times" if repairs else ""
        super().__init__(f"the answer does not fit{asked}: {'; '.join(problems)}")
        self.problems = tuple(problems)
        self.repairs = repairs


class PrepareError(ModelError):
    """A hook that takes part in building the request raised."""

    kind: FailureKind = "prepare"


class ProviderError(ModelError):
    """A provider refused or failed. Carries what it said, so that nobody parses the sentence."""

    def __init__(
        self,
        message: str = "",
        *,
        status: int | None = None,
        code: str | None = None,
        retry_after: float | None = None,
        should_retry: bool | None = None,
        kind: FailureKind | None = None,
        window: int | None = None,
    ) -> None:
        said = f"status {status}" if status is not None else "it gave no reason"
        super().__init__(message or said)
        self.message = message
        self.status = status
        self.code = code
        """The provider's own word for the error, such as `insufficient_quota`."""
        self.retry_after = retry_after
        self.should_retry = should_retry
        self.window = window
        """The model's context limit, when the provider says it with an overflow."""
        self.kind = kind or _kind_of(status, code, message)


# --- Classification -----------------------------------------------------------------------------

CODES: Final[Mapping[str, FailureKind]] = {
    "insufficient_quota": "quota",
    "billing_error": "quota",
    "rate_limit_exceeded": "rate_limit",
    "rate_limit_error": "rate_limit",
    "overloaded_error": "overloaded",
    "invalid_api_key": "auth",
    "authentication_error": "auth",
    "permission_error": "permission",
    "model_not_found": "not_found",
    "not_found_error": "not_found",
    "context_length_exceeded": "context_overflow",
    "context_window_exceeded": "context_overflow",
    "exceed_context_size_error": "context_overflow",
    "model_context_window_exceeded": "context_overflow",
    "request_too_large": "context_overflow",
    "content_filter": "content_filter",
    "invalid_request_error": "invalid_request",
    "timeout_error": "timeout",
    "api_error": "server",
    "server_error": "server",
}
"""Words that several providers share. One file per protocol adds its own."""

STATUSES: Final[Mapping[int, FailureKind]] = {
    401: "auth",
    402: "quota",
    403: "permission",
    404: "not_found",
    408: "timeout",
    409: "server",
    425: "server",
    429: "rate_limit",
    503: "overloaded",
    504: "timeout",
    529: "overloaded",
}

_OVERFLOW: Final = re.compile(
    r"maximum (context|prompt|model) length|exceed context limit|context limit exceeded"
    r"|context[ _-]?(length|window|size)[^.]{0,20}exceed|(prompt|input) (is )?too long"
    r"|(greater|longer) than the (model's )?context (length|window|size)"
    r"|exceeds? (the |this model's |the model's )?(maximum|available )?(context|model length)"
    r"|exceeds? the maximum (number of|input|prompt|token)"
    r"|input token count[^.]{0,40}exceeds|too many (input |prompt )?tokens"
    r"|exceeded (the )?model token limit|reduce the length of the (messages|prompt|input)"
    r"|inputs?`? tokens? ?\+ ?`?max_(new_)?tokens|with context length of only"
    r"|request (entity )?too large",
    re.IGNORECASE,
)
"""How providers say that a prompt is too long, where they have no word for it."""
_VAGUE: Final = frozenset({"invalid_request", "server"})
"""Kinds whose words some use for everything, also where the status is more exact."""
_RETRYABLE_5XX: Final = frozenset({500, 502, *range(520, 529)})


def _kind_of(status: int | None, code: str | None, message: str) -> FailureKind:
    """The kind of a provider's error: its code is more exact than its status, text comes last."""
    kind = CODES.get(code or "")
    if kind is not None and kind not in _VAGUE:
        return kind
    # Providers say that a prompt is too long with a plain "bad request" and a sentence.
    if status in (None, 400, 413, 422) and _OVERFLOW.search(message[:2_000]):
        return "context_overflow"
    if status is None:
        return kind or "unknown"
    if status in STATUSES:
        return STATUSES[status]
    if status in _RETRYABLE_5XX:
        return "server"
    return "invalid_request" if 400 <= status < 500 else "unknown"


def classify(error: BaseException, model: str | None = None) -> Failure:
    """What an exception means. Never raises, whatever the exception is."""
    error = ungrouped(error)
    kind = _kind_of_exception(error)
    facts = KINDS[kind]
    status = retry_after = window = None
    retryable = facts.retryable
    if isinstance(error, ProviderError):
        status, retry_after, window = error.status, error.retry_after, error.window
        if error.should_retry is False:
            retryable = False
    sentence = (error.sentence if isinstance(error, ModelError) else None) or facts.sentence
    message = sentence.format(model=model or "The model")
    return Failure(
        kind=kind,
        message=_own_words(error) or message,
        detail=redact(describe(error)),
        retryable=retryable,
        failover=facts.failover,
        model=model,
        status=status,
        retry_after=retry_after,
        window=window,
    )


def ungrouped(error: BaseException) -> BaseException:
    """The one exception in a group, as of a task group around a model's request."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _own_words(error: BaseException) -> str:
    """What a mistake in the set-up says about itself: we wrote it, for people."""
    try:
        return str(error) if isinstance(error, ConfigError) else ""
    except Exception:
        return ""


_LOCAL: Final = (
    FileExistsError,
    FileNotFoundError,
    IsADirectoryError,
    NotADirectoryError,
    PermissionError,
)
"""Of the operating system's errors, those that no network has."""


def _kind_of_exception(error: BaseException, depth: int = 0) -> FailureKind:
    if isinstance(error, ModelError):
        return error.kind
    if isinstance(error, ConfigError):
        return "config"
    if isinstance(error, TimeoutError):
        return "timeout"
    if isinstance(error, OSError) and not isinstance(error, _LOCAL):
        return "network"  # a connection, or a name that does not resolve
    cause = error.__cause__ or error.__context__
    if cause is not None and not isinstance(error, HoldfastError) and depth < 5:
        # A client's own exception around the operating system's: the cause says what it was.
        kind = _kind_of_exception(cause, depth + 1)
        if kind in ("network", "timeout"):
            return kind
    if type(error).__name__ == "CancelledError":  # asyncio's, without importing asyncio for it
        return "cancelled"
    return "internal"


_SECRETS: Final = re.compile(
    # Behind a word for it, and then also behind "API key provided: …" or "token: Bearer …".
    r"(?P<keep>(?:bearer|basic|api[-_ ]?key|token)['\"]?[\s:=]+['\"]?"
    r"(?:(?:bearer|basic|token|provided|given|is|was)['\"]?[\s:=]+['\"]?)*)"
    # … what looks like one: words that explain something have no digit, and are short.
    r"(?!https?://)(?:(?=[^\s'\",;&]*\d)[^\s'\",;&]{6,}|[^\s'\",;&]{16,})"
    r"|(?P<keep2>(?:secret|password)['\"]?\s*[:=]\s*['\"]?)[^\s'\",;&]+"
    r"|\b(?:(?:sk|pk|xai|gsk|ghp|github_pat|glpat)[-_]|AIza|AKIA|eyJ)[A-Za-z0-9_\-.]{12,}"
    r"|(?<=://)[^/\s@]+@"
    r"|\?[^\s'\"]{8,}",
    re.IGNORECASE,
)


def redact(text: str) -> str:
    """One line without what looks like a credential, at most `MAX_DETAIL` long."""
    line = " ".join(text[: 4 * MAX_DETAIL].split())
    line = _SECRETS.sub(lambda match: f"{match['keep'] or match['keep2'] or ''}[redacted]", line)
    return line if len(line) <= MAX_DETAIL else line[: MAX_DETAIL - 1] + "…"


def describe(error: BaseException) -> str:
    """`Type: message`, also for an exception whose own `__str__` raises."""
    name = type(error).__name__
    try:
        if isinstance(error, BaseExceptionGroup):
            return f"{name}: " + "; ".join(describe(inner) for inner in error.exceptions[:5])
        text = str(error)
    except BaseException:  # even SystemExit: whoever is told of an error must survive it
        return name
    return f"{name}: {text}" if text else name


assert set(KINDS) == set(get_args(FailureKind))
