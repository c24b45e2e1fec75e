"""Metrics of agents: an observer that counts what workers and runs in memory do."""

from __future__ import annotations

from typing import Final

from holdfast.kernel.errors import Failure
from holdfast.kernel.messages import Usage
from holdfast.kernel.model import Model, Request
from holdfast.kernel.observer import (
    ChatObserver,
    Compaction,
    ModelCallOutcome,
    Observer,
    Stretch,
    ToolCallOutcome,
)
from holdfast.observe.metrics import MetricRegistry
from holdfast.observe.payload_sizes import prompt_bytes, result_bytes

MESSAGE_BUCKETS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000)
BYTE_BUCKETS: Final = tuple(4**power for power in range(3, 13))
"""Histogram bounds from 64 bytes to 16 MiB."""
UNKNOWN_LABEL = "unknown"
"""Label of tools that do not exist: a model may invent any number of names."""


class MetricsObserver(Observer, ChatObserver):
    """Observer that updates the metrics of a process, for all its chats and runs."""

    def __init__(self, metrics: MetricRegistry | None = None) -> None:
        """`metrics`: the registry; by default a new one, in `registry`."""
        self.registry = metrics = MetricRegistry() if metrics is None else metrics
        self._add_chats(metrics)
        self._add_model_calls(metrics)
        self._add_tool_calls(metrics)
        self._add_turns(metrics)

    def _add_chats(self, metrics: MetricRegistry) -> None:
        self._running = metrics.gauge(
            "holdfast_running_chats",
            "Number of chats and runs in memory that this process is driving.",
        )
        self._claims = metrics.counter("holdfast_claims_total", "Chats claimed by this process.")
        self._takeovers = metrics.counter(
            "holdfast_takeovers_total", "Chats taken over from a worker that had died."
        )

    def _add_model_calls(self, metrics: MetricRegistry) -> None:
        counter, histogram = metrics.counter, metrics.histogram
        self._steps = counter("holdfast_steps_total", "Complete answers of models.", "model")
        self._tokens = counter(
            "holdfast_tokens_total", "Tokens of model calls by kind.", "model", "kind"
        )
        self._first = histogram(
            "holdfast_first_delta_seconds",
            "Seconds from a model request to its first delta.",
            "model",
        )
        self._model = histogram(
            "holdfast_model_seconds",
            "Seconds from a model request to the end of its answer.",
            "model",
        )
        self._messages = histogram(
            "holdfast_request_messages",
            "Number of messages in each model request.",
            "model",
            bounds=MESSAGE_BUCKETS,
        )
        self._prompt = histogram(
            "holdfast_request_bytes",
            "Bytes of instructions and messages in each model request.",
            "model",
            bounds=BYTE_BUCKETS,
        )
        self._retries = counter(
            "holdfast_retries_total",
            "Failed attempts at model calls that were retried.",
            "provider",
            "model",
            "kind",
        )

    def _add_tool_calls(self, metrics: MetricRegistry) -> None:
        self._tools = metrics.histogram(
            "holdfast_tool_seconds", "Run time of tool calls in seconds.", "tool"
        )
        self._results = metrics.histogram(
            "holdfast_tool_result_bytes",
            "Size of tool results in bytes.",
            "tool",
            bounds=BYTE_BUCKETS,
        )
        self._calls = metrics.counter(
            "holdfast_tool_calls_total", "Tool calls by outcome.", "tool", "outcome"
        )

    def _add_turns(self, metrics: MetricRegistry) -> None:
        self._compactions = metrics.counter(
            "holdfast_compactions_total", "Compactions of histories by outcome.", "outcome"
        )
        self._turns = metrics.counter(
            "holdfast_turns_total", "Turns by the reason they ended.", "reason"
        )
        self._failures = metrics.counter(
            "holdfast_failures_total", "Turns that ended with an error, by kind of failure.", "kind"
        )

    def claimed(self, taken_over: bool) -> None:
        self._claims.add()
        if taken_over:
            self._takeovers.add()

    def drives(self, stretch: Stretch) -> ChatObserver:
        return self

    def names(self, stretch: Stretch) -> ChatObserver:
        return self

    def begins(self) -> None:
        self._running.value += 1

    def asks(self, model: Model, request: Request) -> Model:
        self._messages.take(len(request.messages), model.name)
        self._prompt.take(prompt_bytes(request), model.name)
        return model

    def answered(self, outcome: ModelCallOutcome) -> None:
        if outcome.error is None:
            if outcome.why == "answer":
                self._steps.add(outcome.model)
            self._model.take(outcome.seconds, outcome.model)
            if outcome.first is not None:
                self._first.take(outcome.first, outcome.model)
        if outcome.usage is not None:
            self._spend(outcome.model, outcome.usage)

    def _spend(self, model: str, usage: Usage) -> None:
        add = self._tokens.add
        add(model, "input", by=usage.input)
        add(model, "output", by=usage.output)
        if usage.cache_read:
            add(model, "cache_read", by=usage.cache_read)
        if usage.cache_write:
            add(model, "cache_write", by=usage.cache_write)

    def called(self, outcome: ToolCallOutcome) -> None:
        result = outcome.result
        tool = result.tool if outcome.known else UNKNOWN_LABEL
        self._calls.add(tool, result.outcome)
        self._results.take(result_bytes(result), tool)
        if outcome.seconds > 0:  # others never ran
            self._tools.take(outcome.seconds, tool)

    def retries(self, failure: Failure) -> None:
        model = failure.model or UNKNOWN_LABEL
        self._retries.add(model.partition(":")[0], model, failure.kind)

    def compacted(self, outcome: Compaction) -> None:
        self._compactions.add(outcome)

    def turned(self, reason: str, failure: Failure | None = None) -> None:
        self._turns.add(reason)
        if failure is not None:
            self._failures.add(failure.kind)

    def ends(self) -> None:
        self._running.value -= 1
