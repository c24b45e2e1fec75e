"""Metrics by OpenTelemetry's conventions for generative AI, for the process's MeterProvider.

Only OpenTelemetry's API is used: without an SDK in the process nothing is counted.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from holdfast.kernel.errors import ConfigError, Failure
from holdfast.kernel.model import Model, Request
from holdfast.kernel.observer import (
    ChatObserver,
    ModelCallOutcome,
    Observer,
    Stretch,
    ToolCallOutcome,
)
from holdfast.observe.genai_conventions import (
    error_type,
    input_tokens,
    model_name,
    provider_name,
)
from holdfast.observe.tracing import NOT_ERRORS

if TYPE_CHECKING:
    from opentelemetry.metrics import Histogram, Meter, MeterProvider

CALL_BUCKETS: Final = tuple(0.01 * 2**power for power in range(14))
"""Histogram bounds in seconds for models and tools, as the conventions recommend."""
AGENT_BUCKETS: Final = tuple(0.1 * 2**power for power in range(13))
"""Histogram bounds in seconds for turns, as the conventions recommend."""
TOKEN_BUCKETS: Final = tuple(float(4**power) for power in range(14))
"""Histogram bounds for tokens, as the conventions recommend."""


class OtelMetrics(Observer):
    """Observer that records durations and tokens with OpenTelemetry's meters."""

    def __init__(self, *, meter_provider: MeterProvider | None = None) -> None:
        """Without `meter_provider`, the one of the process is used."""
        try:
            from opentelemetry import metrics
        except ImportError:
            raise ConfigError(
                "metrics need OpenTelemetry: install holdfast[otel], or use MetricsObserver"
            ) from None
        meter = metrics.get_meter("holdfast", meter_provider=meter_provider)
        client, seconds = "gen_ai.client", "s"
        self.calls = _histogram(
            meter, f"{client}.operation.duration", seconds, "Duration of model calls.", CALL_BUCKETS
        )
        self.first = _histogram(
            meter,
            f"{client}.operation.time_to_first_chunk",
            seconds,
            "Time from a model request to the first chunk of its answer.",
            CALL_BUCKETS,
        )
        self.tokens = _histogram(
            meter, f"{client}.token.usage", "{token}", "Tokens of model calls.", TOKEN_BUCKETS
        )
        self.turns = _histogram(
            meter, "gen_ai.invoke_agent.duration", seconds, "Duration of turns.", AGENT_BUCKETS
        )
        self.tools = _histogram(
            meter, "gen_ai.execute_tool.duration", seconds, "Duration of tool calls.", CALL_BUCKETS
        )

    def drives(self, stretch: Stretch) -> ChatObserver:
        return _Measured(self, stretch)

    def names(self, stretch: Stretch) -> ChatObserver:
        return _Measured(self, stretch)


class _Measured(ChatObserver):
    def __init__(self, metrics: OtelMetrics, stretch: Stretch) -> None:
        self._metrics = metrics
        self._agent = stretch.agent
        self._asked = ""
        """Name of the requested model."""
        self._turn_began: float | None = None

    def begins(self) -> None:
        self._turn_began = _now()

    def asks(self, model: Model, request: Request) -> Model:
        self._asked = model.name
        if self._turn_began is None:
            self._turn_began = _now()
        return model

    def answered(self, outcome: ModelCallOutcome) -> None:
        attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": provider_name(outcome.model),
            "gen_ai.request.model": model_name(self._asked),
            "gen_ai.response.model": model_name(outcome.model),
        }
        failed = None if outcome.error is None else error_type(outcome.error)
        self._metrics.calls.record(outcome.seconds, _with_error(attributes, failed))
        if outcome.first is not None:
            self._metrics.first.record(outcome.first, attributes)
        if outcome.usage is not None:
            tokens, usage = self._metrics.tokens, outcome.usage
            tokens.record(input_tokens(usage), {**attributes, "gen_ai.token.type": "input"})
            tokens.record(usage.output, {**attributes, "gen_ai.token.type": "output"})

    def called(self, outcome: ToolCallOutcome) -> None:
        result = outcome.result
        if result.started_at is None:  # it never ran
            return
        attributes = {
            "gen_ai.tool.name": result.tool,
            "gen_ai.tool.type": "function",
            "gen_ai.agent.name": self._agent,
        }
        failed = None if result.outcome in NOT_ERRORS else result.outcome
        self._metrics.tools.record(outcome.seconds, _with_error(attributes, failed))

    def turned(self, reason: str, failure: Failure | None = None) -> None:
        began, self._turn_began = self._turn_began, None
        if began is not None:
            attributes = {"gen_ai.agent.name": self._agent}
            failed = None if failure is None else failure.kind
            self._metrics.turns.record(_now() - began, _with_error(attributes, failed))


def _now() -> float:
    return asyncio.get_running_loop().time()


def _histogram(
    meter: Meter, name: str, unit: str, meaning: str, buckets: tuple[float, ...]
) -> Histogram:
    return meter.create_histogram(
        name, unit, meaning, explicit_bucket_boundaries_advisory=list(buckets)
    )


def _with_error(attributes: dict[str, Any], kind: str | None) -> dict[str, Any]:
    return attributes if kind is None else {**attributes, "error.type": kind}
