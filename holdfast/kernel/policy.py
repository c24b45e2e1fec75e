"""Policy: every constant of the loop with its default, all configurable.

    Agent(..., policy=Policy(retry=Retry(attempts=3)))

Times are in seconds. An invalid value is refused when the policy is built.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from holdfast.kernel.entry_point import EntryMeta
from holdfast.kernel.errors import ConfigError
from holdfast.kernel.messages import MARKER_TEXTS
from holdfast.kernel.model import Model, check_model


def _whole(least: int, **values: int) -> None:
    for name, value in values.items():
        if not isinstance(value, int) or value < least:
            raise ConfigError(f"{name} is {value!r}: use a whole number, at least {least}")


def _percent(least: int, most: int, **values: int) -> None:
    for name, value in values.items():
        if not isinstance(value, int) or not least <= value <= most:
            raise ConfigError(f"{name} is {value!r}: use {least} to {most} percent")


def _at_least(least: float, **values: float) -> None:
    for name, value in values.items():
        if not isinstance(value, (int, float)) or not value >= least:
            raise ConfigError(f"{name} is {value!r}: use at least {least:g}")


def _above(limit: float, **values: float) -> None:
    for name, value in values.items():
        if not isinstance(value, (int, float)) or not value > limit:
            raise ConfigError(f"{name} is {value!r}: use more than {limit:g}")


class Retry(Struct, metaclass=EntryMeta, frozen=True, kw_only=True):
    """Limits of retrying a failed model call."""

    attempts: int = 10
    """Maximum number of attempts, including the first."""
    first_delay: float = 1.0
    """Upper bound of the first delay. It doubles with each attempt; the delay is drawn at random
    between 0 and the bound (full jitter)."""
    max_delay: float = 60.0
    """Maximum of that bound."""
    max_retry_after: float = 300.0
    """Longest wait a provider may ask for; a longer one ends the run instead."""

    def __post_init__(self) -> None:
        _whole(1, attempts=self.attempts)
        _at_least(
            0,
            first_delay=self.first_delay,
            max_delay=self.max_delay,
            max_retry_after=self.max_retry_after,
        )


class Stream(Struct, metaclass=EntryMeta, frozen=True, kw_only=True):
    """Timeouts and limits of a streamed answer."""

    first_event: float = 60.0
    """Timeout of the first event."""
    between_events: float = 600.0
    """Timeout between two later events. A ping is an event."""
    without_content: float = 1_800.0
    """Timeout between two events with content: pings alone keep a stream alive for this long."""
    closing: float = 5.0
    """Timeout for a finished or abandoned stream to release its connection."""
    max_bytes: int = 32 * 1024 * 1024
    """Maximum size of an answer."""
    max_events: int = 1_000_000
    """Maximum number of events of an answer."""

    def __post_init__(self) -> None:
        _above(
            0,
            first_event=self.first_event,
            between_events=self.between_events,
            without_content=self.without_content,
            closing=self.closing,
        )
        _whole(1, max_bytes=self.max_bytes, max_events=self.max_events)


class Calls(Struct, metaclass=EntryMeta, frozen=True, kw_only=True):
    """Limits of running the tool calls of one answer."""

    concurrency: int = 8
    """Maximum number of parallel calls."""
    failures: int = 3
    """Consecutive answers in which every result of a tool was a failure, after which the circuit
    breaker refuses the tool. Expected failures do not count."""
    cooldown: int = 3
    """Answers for which the circuit breaker refuses a tool before it is tried again."""
    grace: float = 5.0
    """Time a cancelled tool has to clean up before it is abandoned."""
    max_arguments: int = 8 * 1024 * 1024
    """Maximum length of arguments in characters; longer ones are refused."""
    max_result: int | None = None
    """Maximum size of a result in bytes; a longer one is cut in the middle. None: about a third of
    the model's window."""
    progress_length: int = 64 * 1024
    """Maximum length of a progress report in characters; a longer one is cut."""

    def __post_init__(self) -> None:
        _whole(1, concurrency=self.concurrency, failures=self.failures, cooldown=self.cooldown)
        _at_least(0, grace=self.grace)
        _whole(1, max_arguments=self.max_arguments, progress_length=self.progress_length)
        if self.max_result is not None:
            _whole(256, max_result=self.max_result)


class ContextLimits(Struct, metaclass=EntryMeta, frozen=True, kw_only=True):
    """Limits of the history that is sent, and of its compaction."""

    window: int | None = None
    """Context window in tokens, used if neither the provider nor the model states it. None:
    unknown; the history is compacted only after the provider reports an overflow."""
    threshold: int = 70
    """Percent of the window at which the history is compacted; 100 disables it."""
    keep: int = 20
    """Percent of the window that the newest steps may fill verbatim after a compaction."""
    summary_attempts: int = 3
    """Maximum attempts at a summary that is empty, cut or too long, each with less input."""
    summary_tokens: int = 8_192
    """Maximum tokens of a summary."""
    context_tokens: int = 8_192
    """Maximum tokens of context messages that survive a compaction, the newest first; at most an
    eighth of the window."""
    model: Model | None = None
    """Model that writes summaries. None: the agent's model."""
    trim_over: int = 4_000
    """Length in characters above which old tool results are shortened before anything is
    summarized."""
    trim_to: int = 1_000
    """Length in characters to which they are shortened."""
    relief: int = 85
    """Percent of the threshold that the request must fall below for shortening to be enough."""
    keep_results: int = 5
    """Number of newest tool results that are never shortened."""

    def __post_init__(self) -> None:
        if self.model is not None:
            check_model(self.model)
        if self.window is not None:
            _whole(1_000, window=self.window)
        _percent(1, 100, threshold=self.threshold, relief=self.relief)
        _percent(0, 99, keep=self.keep)
        if not self.keep < self.threshold:
            raise ConfigError(
                f"keep is {self.keep} percent and threshold {self.threshold}: "
                "what is kept must be less than what triggers a compaction"
            )
        _whole(1, summary_attempts=self.summary_attempts)
        _whole(256, summary_tokens=self.summary_tokens)
        _whole(0, keep_results=self.keep_results, context_tokens=self.context_tokens)
        _whole(1, trim_over=self.trim_over, trim_to=self.trim_to)
        if self.trim_to > self.trim_over:
            raise ConfigError(f"trim_to is {self.trim_to}: use 1 to trim_over, {self.trim_over}")


class Wording(Struct, metaclass=EntryMeta, frozen=True, kw_only=True):
    """Texts that the loop sends to the model. An empty marker is left out of requests."""

    recovery: str = (
        "Your answer was cut off because it was too long. Continue exactly where it stopped, "
        "without repeating or summarizing. If much is left, do it in smaller pieces."
    )
    """Asks for the rest of an answer that the length limit has cut."""
    repair: str = (
        "Your last answer does not have the required form. Give the whole answer again, as JSON "
        "and nothing else. Problems:"
    )
    """Asks for an answer of the output type again. Followed by the problems, one per line."""
    rejection: str = (
        "Your last answer was not accepted. Give the whole answer again, in the same form. Problem:"
    )
    """Asks again after the agent's `validate` rejected an answer. Followed by its reason."""
    interrupted_answer: str = MARKER_TEXTS["interrupted_answer"]
    """Marks an answer that was interrupted."""
    interrupted_tools: str = MARKER_TEXTS["interrupted_tools"]
    """Marks an interruption while tools ran."""

    def __post_init__(self) -> None:
        if not self.recovery.strip():
            raise ConfigError("recovery is empty: to disable recoveries, set recoveries=0")
        if not self.repair.strip():
            raise ConfigError("repair is empty: to disable repairs, set repairs=0")
        if not self.rejection.strip():
            raise ConfigError("rejection is empty: to disable repairs, set repairs=0")


_GROUPS: Final[Mapping[str, type]] = {
    "retry": Retry,
    "stream": Stream,
    "calls": Calls,
    "context": ContextLimits,
    "wording": Wording,
}


class Policy(Struct, metaclass=EntryMeta, frozen=True, kw_only=True):
    """How an agent handles failures and long histories. Pass only what differs from the defaults.

    Steps, tokens, cost and time are limited by `Agent.limits`.
    """

    recoveries: int = 3
    """Maximum times in one turn that the model is asked to continue an answer cut by length."""
    repairs: int = 2
    """Maximum times in one turn that the model is asked again for an answer that does not fit the
    output type, or that the agent's `validate` rejected."""
    guard_timeout: float = 30.0
    """Timeout of the stop guard; a longer check ends the run with an error."""
    validate_timeout: float = 30.0
    """Timeout of the agent's `validate`; a longer check is retried like a failed model call."""
    instructions_timeout: float = 30.0
    """Timeout of each function of the agent's instructions; a longer one is called again, like one
    that raises."""
    deps_timeout: float = 60.0
    """Timeout of the provider of a durable chat's deps; after a longer one the step is retried."""
    buffer: int = 64
    """Events buffered for a slow reader before the run waits for it."""
    retry: Retry = Retry()
    stream: Stream = Stream()
    calls: Calls = Calls()
    context: ContextLimits = ContextLimits()
    wording: Wording = Wording()

    def __post_init__(self) -> None:
        for name, kind in _GROUPS.items():
            if not isinstance(getattr(self, name), kind):
                raise ConfigError(f"{name} is {getattr(self, name)!r}: use {kind.__name__}(…)")
        _whole(1, buffer=self.buffer)
        _whole(0, recoveries=self.recoveries, repairs=self.repairs)
        _above(0, guard_timeout=self.guard_timeout, deps_timeout=self.deps_timeout)
        _above(0, validate_timeout=self.validate_timeout)
        _above(0, instructions_timeout=self.instructions_timeout)


UNKNOWN_WINDOW_RESULT: Final = 64 * 1024
"""Maximum bytes of a tool result when the model's window is unknown."""
MIN_RESULT: Final = 16 * 1024


def max_result(window: int | None) -> int:
    """Maximum bytes of one tool result: about a third of the window, at three bytes per token."""
    return UNKNOWN_WINDOW_RESULT if window is None else max(MIN_RESULT, window)
