"""Every constant of the loop, in one place, each with its default and each of them yours to change.

    Agent(..., policy=Policy(max_steps=50, retry=Retry(attempts=3)))

Times are in seconds. A value that cannot be right is refused when the policy is built.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from holdfast.kernel.errors import ConfigError
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


class Retry(Struct, frozen=True, kw_only=True):
    """How often and how late a failed model call is tried again."""

    attempts: int = 10
    first_delay: float = 1.0
    """Doubled for each further attempt, and drawn at random between 0 and that (full jitter)."""
    max_delay: float = 60.0
    max_retry_after: float = 300.0
    """A provider that asks for a longer wait than this ends the run instead."""

    def __post_init__(self) -> None:
        _whole(1, attempts=self.attempts)
        _at_least(
            0,
            first_delay=self.first_delay,
            max_delay=self.max_delay,
            max_retry_after=self.max_retry_after,
        )


class Stream(Struct, frozen=True, kw_only=True):
    """When an answer that is being streamed is given up."""

    first_event: float = 60.0
    """How long a model may take to say anything at all."""
    between_events: float = 600.0
    """How long it may be silent after that. A ping ends a silence too."""
    closing: float = 5.0
    """How long a stream that is over, or given up, may take to let go of its connection."""
    max_bytes: int = 32 * 1024 * 1024
    max_events: int = 1_000_000

    def __post_init__(self) -> None:
        _above(
            0,
            first_event=self.first_event,
            between_events=self.between_events,
            closing=self.closing,
        )
        _whole(1, max_bytes=self.max_bytes, max_events=self.max_events)


class Calls(Struct, frozen=True, kw_only=True):
    """How the tool calls of one answer are run."""

    concurrency: int = 8
    failures: int = 3
    """A tool that failed this often in a row is refused for the rest of the turn."""
    grace: float = 5.0
    """How long a cancelled tool may clean up before it is abandoned."""
    max_arguments: int = 8 * 1024 * 1024
    """Longer arguments, in characters, are refused."""
    max_result: int | None = None
    """Longer results, in bytes, are cut in the middle. None: a third of the model's window."""
    progress_length: int = 64 * 1024
    """Longer progress, in characters, is cut: it is shown, not kept."""

    def __post_init__(self) -> None:
        _whole(1, concurrency=self.concurrency, failures=self.failures)
        _at_least(0, grace=self.grace)
        _whole(1, max_arguments=self.max_arguments, progress_length=self.progress_length)
        if self.max_result is not None:
            _whole(256, max_result=self.max_result)


class Context(Struct, frozen=True, kw_only=True):
    """How much of the history is sent, and when and how it is summarized."""

    window: int | None = None
    """How many tokens fit, where neither the provider nor the model says it. None: nobody knows,
    and only the provider's overflow counts."""
    threshold: int = 70
    """Percent of the window at which the history is compacted; 100 switches it off."""
    keep: int = 20
    """Percent of the window that the newest steps may fill verbatim after a compaction."""
    max_compactions: int = 3
    """In one turn."""
    summary_attempts: int = 3
    """Tries at a summary, each with less input, when it comes back empty, cut or too long."""
    summary_tokens: int = 8_192
    model: Model | None = None
    """Who writes summaries. None: the agent's model."""
    trim_over: int = 4_000
    """Old tool results longer than this, in characters, are shortened before anything is
    summarized."""
    trim_to: int = 1_000
    relief: int = 85
    """Percent of the threshold that shortening must get below to be enough."""
    keep_results: int = 5
    """The newest tool results that are never shortened."""

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
        _whole(1, max_compactions=self.max_compactions, summary_attempts=self.summary_attempts)
        _whole(256, summary_tokens=self.summary_tokens)
        _whole(0, keep_results=self.keep_results)
        _whole(1, trim_over=self.trim_over, trim_to=self.trim_to)
        if self.trim_to > self.trim_over:
            raise ConfigError(f"trim_to is {self.trim_to}: use 1 to trim_over, {self.trim_over}")


class Wording(Struct, frozen=True, kw_only=True):
    """What the model is told in our own words. An empty marker is left out."""

    recovery: str = (
        "Your answer was cut off because it was too long. Go on exactly where it stopped, without "
        "repeating or summarizing. If much is left, do it in smaller pieces."
    )
    repair: str = (
        "Your last answer does not have the form that was asked for. Give the whole answer again, "
        "as JSON and with nothing beside it. What is wrong:"
    )
    """What is wrong follows, one line for each problem."""
    interrupted_answer: str = "[The user interrupted while you were answering.]"
    interrupted_tools: str = "[The user interrupted while your tool calls were running.]"

    def __post_init__(self) -> None:
        if not self.recovery.strip():
            raise ConfigError("recovery is empty: to switch recoveries off, set recoveries=0")
        if not self.repair.strip():
            raise ConfigError("repair is empty: to switch repairs off, set repairs=0")


_GROUPS: Final[Mapping[str, type]] = {
    "retry": Retry,
    "stream": Stream,
    "calls": Calls,
    "context": Context,
    "wording": Wording,
}


class Policy(Struct, frozen=True, kw_only=True):
    """What an agent may take, and how it bears with failure. Build it with what differs."""

    max_steps: int = 1_000
    """Answers of the model in one turn."""
    recoveries: int = 3
    """How often in one turn an answer cut by length is asked to go on."""
    repairs: int = 2
    """How often in one turn an answer that does not fit the output type is asked for again."""
    guard_timeout: float = 30.0
    """A stop guard that takes longer ends the run with an error."""
    buffer: int = 64
    """Events that may wait for a slow reader before the run waits for it."""
    retry: Retry = Retry()
    stream: Stream = Stream()
    calls: Calls = Calls()
    context: Context = Context()
    wording: Wording = Wording()

    def __post_init__(self) -> None:
        for name, kind in _GROUPS.items():
            if not isinstance(getattr(self, name), kind):
                raise ConfigError(f"{name} is {getattr(self, name)!r}: use {kind.__name__}(…)")
        _whole(1, max_steps=self.max_steps, buffer=self.buffer)
        _whole(0, recoveries=self.recoveries, repairs=self.repairs)
        _above(0, guard_timeout=self.guard_timeout)


UNKNOWN_WINDOW_RESULT: Final = 64 * 1024
"""Bytes of a tool result that are kept when nobody knows the model's window."""
MIN_RESULT: Final = 16 * 1024


def max_result(window: int | None) -> int:
    """Bytes of one tool result: about a third of the window, at three bytes a token."""
    return UNKNOWN_WINDOW_RESULT if window is None else max(MIN_RESULT, window)
