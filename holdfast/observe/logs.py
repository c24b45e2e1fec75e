"""Log formats: text for people or JSON lines, each with the chat that it is about."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from textwrap import indent
from typing import Any, Final, Literal, Protocol, TextIO, TypeAlias

import msgspec

from holdfast.kernel.escape import escape, escape_line
from holdfast.observe.redact import default_redactor

LogFormat: TypeAlias = Literal["text", "json"]
LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]


class LogContext(Protocol):
    """Fields that the log lines of a task carry."""

    @property
    def log_fields(self) -> Mapping[str, object]:
        """Current chat, worker, epoch and attempt."""
        ...


LOG_CONTEXT: Final[ContextVar[LogContext | None]] = ContextVar("holdfast_driven", default=None)
"""Log fields of the current task. Set once by a runner and inherited by all tasks that it starts;
read only when something is logged."""


def log_fields() -> Mapping[str, object]:
    """Chat, worker, epoch and attempt of the current task; empty outside of one."""
    context = LOG_CONTEXT.get()
    return {} if context is None else context.log_fields


class _Lines(logging.Formatter):
    def __init__(self, redact: Callable[[str], str] | None = None) -> None:
        """`redact` removes secrets: by default, values of environment variables that are named like
        secrets."""
        super().__init__()
        self._redact = redact or default_redactor()

    def format(self, record: logging.LogRecord) -> str:
        return self._redact(self._line(record))

    def _line(self, record: logging.LogRecord) -> str:
        raise NotImplementedError

    def _traceback(self, record: logging.LogRecord) -> str | None:
        if record.exc_info and record.exc_info[0] is not None:
            return self.formatException(record.exc_info)
        return None


class TextLogFormatter(_Lines):
    """Lines of text: `10:42:07 warning holdfast.worker: retrying (chat 0193…, attempt 2)`."""

    def _line(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created).strftime("%H:%M:%S")
        message = escape_line(record.getMessage())
        line = f"{at} {record.levelname.lower()} {record.name}: {message}"
        about = ", ".join(f"{name} {value}" for name, value in log_fields().items())
        if about:
            line += f" ({about})"
        error = self._traceback(record)
        # Indented, so that no line of an exception's text can pass for a line of the log.
        return line if error is None else f"{line}\n{indent(escape(error), '  ')}"


class JsonLogFormatter(_Lines):
    """JSON lines: `time`, `level`, `logger`, `message`, chat, worker, epoch, attempt, `error`, and
    `trace_id` and `span_id` inside a span of OpenTelemetry."""

    def _line(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC)
        line: dict[str, Any] = {
            "time": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _plain(record.getMessage()),
            **log_fields(),
            **_span_fields(),
        }
        error = self._traceback(record)
        if error is not None:
            line["error"] = _plain(error)
        return msgspec.json.encode(line, enc_hook=str).decode()


def _span_fields() -> Mapping[str, str]:
    """Ids of the current span of OpenTelemetry, if the process uses it."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return {}
    span = trace.get_current_span().get_span_context()
    if not span.is_valid:
        return {}
    return {"trace_id": f"{span.trace_id:032x}", "span_id": f"{span.span_id:016x}"}


def _plain(text: str) -> str:
    """Text with lone surrogates escaped, which JSON lines cannot hold."""
    return text.encode(errors="backslashreplace").decode()


def set_up_logs(
    form: LogFormat,
    level: LogLevel,
    redact: Callable[[str], str] | None = None,
    stream: TextIO | None = None,
) -> Callable[[], None]:
    """Set up logging: our messages from `level` up, those of libraries from warnings up.

    Returns a function that undoes it.
    """
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter((JsonLogFormatter if form == "json" else TextLogFormatter)(redact))
    root, ours = logging.getLogger(), logging.getLogger("holdfast")
    before = ours.level
    root.addHandler(handler)
    ours.setLevel(level.upper())

    def undo() -> None:
        root.removeHandler(handler)
        ours.setLevel(before)

    return undo
