"""Exceptions of the kernel, and the classification of any exception as a `Failure`.

Each failure has a kind; `FAILURE_KINDS` states whether a kind can be retried, whether another model
may help, and the sentence for people. `classify` reads structured facts first (status, the
provider's code, our own exception types) and text last, and then only text the provider controls.
Whether and when a call is retried is decided in `retry.py`.

    HoldfastError
    ├── ConfigError (also ValueError)   an option or argument is wrong
    │   ├── UnknownKeyword              also a TypeError: there is no such keyword argument
    │   ├── TooManyArguments            also a TypeError: the others need a name
    │   └── NotConfigured               an address of a provider is missing
    │       └── NeedsKey                a key of a provider is missing
    ├── FormatError (also ValueError)   stored JSON cannot be read
    ├── ToolFailed                      raised by tools: the model reads the message
    │   ├── ExpectedFailure             a regular negative answer, such as *not found*
    │   └── Rejected                    raised by checks of answers and calls
    └── ModelError                      a model call failed; `kind` says why
        ├── ProviderError               the provider refused or failed
        ├── StreamSilent                no event for too long
        ├── StreamCut                   the stream ended without its final event
        ├── StreamTooLong               the stream passed a limit
        ├── FinishedWithError           the stream ended with the finish reason `error`
        ├── EmptyResponse               neither text nor a tool call
        ├── ContentFiltered             blocked under a content policy
        ├── StillOverLimit              too long even after a compaction
        │   └── PromptTooLong           too long, with nothing to compact
        ├── InvalidOutput               the final answer does not fit the output type
        ├── PrepareError                a hook that builds the request raised
        └── Escalated                   the stop guard ended the run

Other layers derive from `HoldfastError` where their errors are defined.
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
    "budget",
    "poison",
    "cancelled",
    "config",
    "internal",
    "unknown",
]


class KindFacts(Struct, frozen=True):
    """Properties of a kind of failure."""

    retryable: bool
    """Whether the same call may succeed later."""
    failover: bool
    """Whether another model may succeed now."""
    sentence: str
    """Sentence for people. `{model}` is the model's name."""


FAILURE_KINDS: Final[Mapping[FailureKind, KindFacts]] = {
    "rate_limit": KindFacts(True, True, "{model} is rate limiting requests."),
    "overloaded": KindFacts(True, True, "{model} is overloaded."),
    "quota": KindFacts(
        False, True, "The quota or budget for {model} is used up: check its billing."
    ),
    "auth": KindFacts(False, False, "{model} did not accept the API key: check it."),
    "permission": KindFacts(
        False, False, "The API key may not use {model}: check its permissions."
    ),
    "not_found": KindFacts(False, False, "{model} does not exist at this address."),
    "invalid_request": KindFacts(False, False, "{model} rejected the request as invalid."),
    "context_overflow": KindFacts(
        False,
        False,
        "The conversation does not fit into the context window of {model}: send less, use a model "
        "with a larger window, or start a new one.",
    ),
    "content_filter": KindFacts(
        False, False, "{model} blocked its answer under its content policy."
    ),
    "timeout": KindFacts(True, True, "{model} took too long."),
    "stream_silent": KindFacts(True, True, "{model} stopped sending."),
    "stream_cut": KindFacts(
        True, True, "The connection to {model} ended before the answer was complete."
    ),
    "stream_too_long": KindFacts(False, False, "{model} did not stop answering."),
    "empty_response": KindFacts(True, False, "{model} returned an empty answer."),
    "network": KindFacts(True, True, "{model} cannot be reached."),
    "server": KindFacts(True, True, "{model} had an internal error."),
    "prepare": KindFacts(True, False, "A function of the agent failed."),
    "still_over_limit": KindFacts(
        False,
        False,
        "The conversation is too long for {model}, even after it was summarized: use a model "
        "with a larger window, or start a new one.",
    ),
    "escalated": KindFacts(False, False, "The stop guard ended the run."),
    "invalid_output": KindFacts(False, False, "{model} did not answer in the required form."),
    "budget": KindFacts(False, False, "A budget is used up."),
    "poison": KindFacts(False, False, "This conversation repeatedly crashed its worker."),
    "cancelled": KindFacts(False, False, "The run was cancelled."),
    "config": KindFacts(False, False, "The agent is misconfigured."),
    "internal": KindFacts(False, False, "An unexpected error ended the run."),
    "unknown": KindFacts(False, False, "{model} failed for an unknown reason."),
}

MAX_DETAIL: Final = 500


class Failure(Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True):
    """A classified failure: what went wrong, for people and for programs."""

    kind: FailureKind
    message: str
    """Cause of the failure, for people."""
    detail: str = ""
    """Cause of the failure in detail, for operators (redacted)."""
    retryable: bool = False
    """Whether the same call may succeed later."""
    failover: bool = False
    """Whether another model may succeed now."""
    model: str | None = None
    """Model that failed, as `provider:model`."""
    status: int | None = None
    """HTTP status of the provider's response."""
    retry_after: float | None = None
    """Seconds that the provider asked us to wait."""
    window: int | None = None
    """The model's context limit in tokens, if the provider reported it with an overflow."""
    attempts: int | None = None
    """Maximum number of attempts at a call that fails like this; None leaves it to the policy."""


# --- Exceptions ---------------------------------------------------------------------------------


class HoldfastError(Exception):
    """Base of all exceptions that holdfast raises on purpose."""


class ConfigError(HoldfastError, ValueError):
    """An option or argument is wrong. The message states what to do."""


class UnknownKeyword(ConfigError, TypeError):
    """A function or class has no such keyword argument. The message states what to write."""


class TooManyArguments(ConfigError, TypeError):
    """A function or class takes fewer positional arguments. The message names the others."""


class NotConfigured(ConfigError):
    """A key or an address that the provider requires is missing."""


class NeedsKey(NotConfigured):
    """A key that the provider requires is missing. The message names the variable to set."""


class MissingDescription(UserWarning):
    """A tool has no description, so that a model cannot know when to call it."""


class ToolFailed(HoldfastError):
    """Raised by a tool that failed; the model reads the message and nothing else."""

    expected: bool = False
    """Whether the failure is a regular negative answer: see `ExpectedFailure`."""


class ExpectedFailure(ToolFailed):
    """Raised by a tool for a regular negative answer, such as *not found* or *no match*.

    The model reads it like any other failure. The circuit breaker does not count it, since the tool
    works.
    """

    expected = True


class Rejected(ToolFailed):
    """Raised by a check that rejects an answer or a call: `Agent(validate=…)`, `@tool(validate=…)`.

    The model reads the message and nothing else.
    """


class FormatError(HoldfastError, ValueError):
    """Stored JSON cannot be read."""


class ModelError(HoldfastError):
    """A model call failed. Base of all failures of model calls."""

    kind: FailureKind = "unknown"
    sentence: str | None = None
    """Sentence for people that replaces the one of the kind."""


class StreamSilent(ModelError):
    """The stream sent no event for too long."""

    kind: FailureKind = "stream_silent"

    def __init__(self, seconds: float, lacking: str = "event") -> None:
        super().__init__(f"no {lacking} for {seconds:g} s")
        self.seconds = seconds


class StreamCut(ModelError):
    """The stream ended without its final event."""

    kind: FailureKind = "stream_cut"

    def __init__(self) -> None:
        super().__init__("the stream ended without its final event")


class FinishedWithError(ModelError):
    """The stream ended with the finish reason `error`."""

    kind: FailureKind = "server"

    def __init__(self) -> None:
        super().__init__("the model finished with an error")


class StreamTooLong(ModelError):
    """The stream passed the limit of bytes or events."""

    kind: FailureKind = "stream_too_long"

    def __init__(self, limit: int, unit: str) -> None:
        super().__init__(f"the stream passed {limit} {unit}")
        self.limit = limit


class EmptyResponse(ModelError):
    """The answer has neither text nor a tool call."""

    kind: FailureKind = "empty_response"

    def __init__(self) -> None:
        super().__init__("neither text nor a tool call")


class ContentFiltered(ModelError):
    """The provider blocked the answer under its content policy."""

    kind: FailureKind = "content_filter"

    def __init__(self, why: str = "the answer was filtered and nothing visible is left") -> None:
        super().__init__(why)


class StillOverLimit(ModelError):
    """The next request is too long even after a compaction.

    `again`: whether a retry has anything to summarize.
    """

    kind: FailureKind = "still_over_limit"

    def __init__(self, size: int, limit: int | None, *, again: bool = True) -> None:
        over = f", and {limit} are allowed" if limit is not None else ""
        super().__init__(f"the next request has about {size} tokens{over}")
        self.size = size
        self.limit = limit
        allowed = f" and {limit:,} are allowed" if limit is not None and limit <= size else ""
        remedy = "Retry to summarize it again, use" if again else "Use"
        self.sentence = (
            f"The conversation is too long for {{model}}, even after it was summarized: it has "
            f"about {size:,} tokens{allowed}. {remedy} a model with a larger window, or start a "
            "new conversation."
        )


class PromptTooLong(StillOverLimit):
    """The first prompt is too long; there is nothing to summarize yet."""

    def __init__(self, size: int, window: int | None) -> None:
        # The size is an estimate: if by it everything would fit, the provider knew better.
        over = window if window is not None and window < size else None
        super().__init__(size, over)
        fit = f", and {over:,} fit" if over is not None else ""
        self.sentence = (
            f"The message is too long for {{model}}: about {size:,} tokens with instructions and "
            f"tools{fit}. Shorten it, in place or in a new conversation, or use a model with a "
            "larger window."
        )


class Escalated(ModelError):
    """The stop guard ended the run."""

    kind: FailureKind = "escalated"


class InvalidOutput(ModelError):
    """The final answer does not fit the output type, even after repairs."""

    kind: FailureKind = "invalid_output"

    def __init__(self, problems: Sequence[str], repairs: int) -> None:
        tried = f" after {repairs} repairs" if repairs else ""
        super().__init__(f"the answer does not fit{tried}: {'; '.join(problems)}")
        self.problems = tuple(problems)
        self.repairs = repairs


class PrepareError(ModelError):
    """A hook that helps to build the request, or that checks the answer, raised, or the provider of
    the deps.

    `retryable`: whether the error may pass.
    """

    kind: FailureKind = "prepare"

    def __init__(self, message: str, *, agent: str | None = None, retryable: bool = True) -> None:
        super().__init__(message)
        self.retryable = retryable
        if agent is not None:
            named = agent.replace("{", "{{").replace("}", "}}")
            self.sentence = f"A function of the agent {named} failed."


class ProviderError(ModelError):
    """A provider refused or failed. Carries the facts as attributes, so no text need be parsed."""

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
        attempts: int | None = None,
        sentence: str | None = None,
    ) -> None:
        reason = f"status {status}" if status is not None else "no reason given"
        super().__init__(message or reason)
        self.message = message
        self.status = status
        self.code = code
        """The provider's error code, such as `insufficient_quota`."""
        self.retry_after = retry_after
        self.should_retry = should_retry
        self.window = window
        """The model's context limit in tokens, if the provider reported it with an overflow."""
        self.attempts = attempts
        """Maximum number of attempts, if fewer than the policy's make sense."""
        self.sentence = sentence
        self.kind = kind or _kind_of(status, code, message)


# --- Classification -----------------------------------------------------------------------------

SHARED_ERROR_CODES: Final[Mapping[str, FailureKind]] = {
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
"""Error codes that several providers share. The file of each protocol adds its own."""

STATUS_KINDS: Final[Mapping[int, FailureKind]] = {
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
"""Messages of providers that have no error code for a prompt that is too long."""
_VAGUE: Final = frozenset({"invalid_request", "server"})
"""Kinds whose codes some providers use for everything; the status is more exact."""
_RETRYABLE_5XX: Final = frozenset({500, 502, *range(520, 529)})


def _kind_of(status: int | None, code: str | None, message: str) -> FailureKind:
    """The kind of a provider's error: its code is more exact than its status, text comes last."""
    kind = SHARED_ERROR_CODES.get(code or "")
    if kind is not None and kind not in _VAGUE:
        return kind
    # Some providers report a prompt that is too long as a plain "bad request" with a sentence.
    if status in (None, 400, 413, 422) and _OVERFLOW.search(message[:2_000]):
        return "context_overflow"
    if status is None:
        return kind or "unknown"
    if status in STATUS_KINDS:
        return STATUS_KINDS[status]
    if status in _RETRYABLE_5XX:
        return "server"
    return "invalid_request" if 400 <= status < 500 else "unknown"


def classify(error: BaseException, model: str | None = None) -> Failure:
    """Classify any exception as a `Failure`. Never raises."""
    error = ungrouped(error)
    kind = _kind_of_exception(error)
    facts = FAILURE_KINDS[kind]
    status = retry_after = window = attempts = None
    retryable = facts.retryable
    if isinstance(error, ProviderError):
        status, retry_after = error.status, error.retry_after
        window, attempts = error.window, error.attempts
        if error.should_retry is False:
            retryable = False
    elif isinstance(error, PrepareError):
        retryable = error.retryable
    sentence = (error.sentence if isinstance(error, ModelError) else None) or facts.sentence
    message = sentence.format(model=model or "the model")
    if model is None:
        message = message[:1].upper() + message[1:]
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
        attempts=attempts,
    )


def ungrouped(error: BaseException) -> BaseException:
    """The only exception in a group, as raised by a task group around a model's request."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _own_words(error: BaseException) -> str:
    """The message of a `ConfigError`, which is written for people."""
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
"""Operating system errors that never come from a network."""


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
        # A client's own exception around the operating system's: the cause decides.
        kind = _kind_of_exception(cause, depth + 1)
        if kind in ("network", "timeout"):
            return kind
    if type(error).__name__ == "CancelledError":  # asyncio's, without importing asyncio for it
        return "cancelled"
    return "internal"


_SECRETS: Final = re.compile(
    # After a word for a secret, also as in "API key provided: …" or "token: Bearer …".
    r"(?P<keep>(?:bearer|basic|api[-_ ]?key|token)['\"]?[\s:=]+['\"]?"
    r"(?:(?:bearer|basic|token|provided|given|is|was)['\"]?[\s:=]+['\"]?)*)"
    # … something that looks like one: ordinary words have no digit and are short.
    r"(?!https?://)(?:(?=[^\s'\",;&]*\d)[^\s'\",;&]{6,}|[^\s'\",;&]{16,})"
    r"|(?P<keep2>(?:secret|password)['\"]?\s*[:=]\s*['\"]?)[^\s'\",;&]+"
    r"|\b(?:(?:sk|pk|xai|gsk|ghp|github_pat|glpat)[-_]|AIza|AKIA|eyJ)[A-Za-z0-9_\-.]{12,}"
    r"|(?<=://)[^/\s@]+@"
    r"|\?[^\s'\"]{8,}",
    re.IGNORECASE,
)


def redact(text: str) -> str:
    """One line of at most `MAX_DETAIL` characters without anything that looks like a credential."""
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
    except BaseException:  # even SystemExit: describing an error must not raise
        return name
    return f"{name}: {text}" if text else name


assert set(FAILURE_KINDS) == set(get_args(FailureKind))
