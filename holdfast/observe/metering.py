"""Counts what a worker does."""

from __future__ import annotations

from holdfast.kernel.errors import Failure
from holdfast.kernel.messages import Outcome, Usage
from holdfast.observe.meters import Meters
from holdfast.observe.observer import Observer, Said, Stretch, Witness

UNKNOWN = "unknown"
"""A tool that there is not: what a model may call it is without end."""


class Metering(Observer, Witness):
    """One for all chats: a number does not ask whose it is."""

    def __init__(self, meters: Meters) -> None:
        counter, histogram = meters.counter, meters.histogram
        self._running = meters.gauge("holdfast_running_chats", "Chats that this process drives.")
        self._claims = counter("holdfast_claims_total", "Chats claimed by this process.")
        self._takeovers = counter(
            "holdfast_takeovers_total", "Of them, those of a worker that had died."
        )
        self._steps = counter("holdfast_steps_total", "Answers of models.", "model")
        self._tokens = counter("holdfast_tokens_total", "Tokens by kind.", "model", "kind")
        self._first = histogram(
            "holdfast_first_delta_seconds", "From a request to the first delta.", "model"
        )
        self._model = histogram(
            "holdfast_model_seconds", "From a request to the end of its answer.", "model"
        )
        self._retries = counter(
            "holdfast_retries_total", "Attempts that failed and were followed by another.", "kind"
        )
        self._tools = histogram("holdfast_tool_seconds", "How long tool calls ran.", "tool")
        self._calls = counter(
            "holdfast_tool_calls_total", "Tool calls by what came of them.", "tool", "outcome"
        )
        self._compactions = counter(
            "holdfast_compactions_total", "Histories that were shortened.", "how"
        )
        self._turns = counter("holdfast_turns_total", "Turns by how they ended.", "reason")
        self._failures = counter(
            "holdfast_failures_total", "Turns that ended with an error, by its kind.", "kind"
        )

    def claimed(self, taken_over: bool) -> None:
        self._claims.add()
        if taken_over:
            self._takeovers.add()

    def drives(self, stretch: Stretch) -> Witness:
        return self

    def names(self, stretch: Stretch) -> Witness:
        return self

    def begins(self) -> None:
        self._running.value += 1

    def answered(self, said: Said) -> None:
        if said.error is None:
            if said.why == "answer":
                self._steps.add(said.model)
            self._model.take(said.seconds, said.model)
            if said.first is not None:
                self._first.take(said.first, said.model)
        if said.usage is not None:
            self._spend(said.model, said.usage)

    def _spend(self, model: str, usage: Usage) -> None:
        add = self._tokens.add
        add(model, "input", by=usage.input)
        add(model, "output", by=usage.output)
        if usage.cache_read:
            add(model, "cache_read", by=usage.cache_read)
        if usage.cache_write:
            add(model, "cache_write", by=usage.cache_write)

    def called(self, tool: str, outcome: Outcome, seconds: float) -> None:
        self._calls.add(tool or UNKNOWN, outcome)
        if seconds > 0:  # others never ran
            self._tools.take(seconds, tool or UNKNOWN)

    def retries(self, failure: Failure) -> None:
        self._retries.add(failure.kind)

    def compacted(self, summarized: bool) -> None:
        self._compactions.add("summary" if summarized else "trim")

    def turned(self, reason: str, failure: Failure | None = None) -> None:
        self._turns.add(reason)
        if failure is not None:
            self._failures.add(failure.kind)

    def ends(self) -> None:
        self._running.value -= 1
