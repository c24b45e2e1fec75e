"""Telemetry: observers for traces, metrics and recordings, and the formats of log lines.

`holdfast.instrument()` is the short way; `docs/observability.md` explains all of it.
"""

from __future__ import annotations

from holdfast.kernel.observer import (
    ChatObserver as ChatObserver,
    ModelCallOutcome as ModelCallOutcome,
    Observer as Observer,
    Stretch as Stretch,
    ToolCallOutcome as ToolCallOutcome,
    conversation as conversation,
    several as several,
)
from holdfast.observe.logs import (
    JsonLogFormatter as JsonLogFormatter,
    TextLogFormatter as TextLogFormatter,
    log_fields as log_fields,
    set_up_logs as set_up_logs,
)
from holdfast.observe.metrics import (
    MetricRegistry as MetricRegistry,
)
from holdfast.observe.metrics_observer import (
    MetricsObserver as MetricsObserver,
)
from holdfast.observe.model_call_recorder import (
    Recorder as Recorder,
)
from holdfast.observe.otel_metrics import (
    OtelMetrics as OtelMetrics,
)
from holdfast.observe.redact import (
    Redactor as Redactor,
)
from holdfast.observe.tracing import (
    Tracing as Tracing,
)
