"""Spans of the real OpenTelemetry SDK, kept in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.trace import StatusCode


class Spans(SpanProcessor):
    """Every span that was started, in order."""

    def __init__(self) -> None:
        self.all: list[Span] = []
        self.ended = 0
        self.provider = TracerProvider()
        self.provider.add_span_processor(self)
        self.tracer = self.provider.get_tracer("test")

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        self.all.append(span)

    def on_end(self, span: ReadableSpan) -> None:
        self.ended += 1

    def tree(self) -> list[str]:
        """Names of the spans, indented below their parents."""
        return list(self._below(None, ""))

    def _below(self, parent: Span | None, indent: str) -> Iterator[str]:
        for span in self.all:
            if parent_id(span) == (None if parent is None else parent.context.span_id):
                yield f"{indent}{span.name}"
                yield from self._below(span, f"{indent}  ")

    def named(self, name: str) -> Span:
        (span,) = (span for span in self.all if span.name == name)
        return span

    def values(self, name: str) -> list[Any]:
        """An attribute of every span, None where it is missing."""
        return [attributes(span).get(name) for span in self.all]

    @property
    def all_ended(self) -> bool:
        """Whether each span was ended, once."""
        return self.ended == len(self.all) > 0

    @property
    def failed(self) -> list[bool]:
        return [span.status.status_code is StatusCode.ERROR for span in self.all]


def parent_id(span: Span) -> int | None:
    return None if span.parent is None else span.parent.span_id


def attributes(span: Span) -> dict[str, Any]:
    return dict(span.attributes or {})


def events(span: Span) -> list[tuple[str, dict[str, Any]]]:
    return [(event.name, dict(event.attributes or {})) for event in span.events]
