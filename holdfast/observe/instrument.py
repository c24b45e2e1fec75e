"""Observation of a whole process, with one line."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from holdfast.kernel.errors import ConfigError
from holdfast.kernel.observer import Observer, observe_process, several

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider


def instrument(
    observer: Observer | None = None,
    *,
    content: bool = False,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
) -> Callable[[], None]:
    """Observe every agent of this process: runs in memory, and chats of hosts that it opens.

    By default, turns, model calls and tool calls become OpenTelemetry spans and metrics, in the
    providers of the process or in those given. `content` adds messages, arguments and results to
    the spans, with known secrets removed. With `observer`, that is used instead. It applies to runs
    and chats that start afterwards; a second call replaces the first. Returns a function that ends
    it.
    """
    if observer is None:
        from holdfast.observe.otel_metrics import OtelMetrics
        from holdfast.observe.tracing import Tracing

        traces = Tracing(content=content, tracer_provider=tracer_provider)
        observer = several([traces, OtelMetrics(meter_provider=meter_provider)])
    elif not isinstance(observer, Observer):
        raise ConfigError(f"observer is {observer!r}: use an Observer, or several([…])")
    elif content or tracer_provider is not None or meter_provider is not None:
        raise ConfigError(
            "content and providers are for OpenTelemetry: pass them to Tracing, or no observer"
        )
    return observe_process(observer)
