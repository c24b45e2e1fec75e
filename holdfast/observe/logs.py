"""Logs: a line for people, or a line of JSON, each with the chat that it is about."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Final, Literal, Protocol, TextIO, TypeAlias

import msgspec

LogFormat: TypeAlias = Literal["text", "json"]
LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]
PLACES: Final = ("chat", "worker", "epoch", "attempt")


class Driven(Protocol):
    """What a task is about."""

    @property
    def place(self) -> Mapping[str, object]:
        """Chat, worker, epoch and attempt, as they are now."""
        ...


DRIVEN: Final[ContextVar[Driven | None]] = ContextVar("holdfast_driven", default=None)
"""Set once by whoever drives a chat, and inherited by all that it starts: its tools, its writes.
It is looked into only when something is logged."""


def place() -> Mapping[str, object]:
    driven = DRIVEN.get()
    return {} if driven is None else driven.place


class _Lines(logging.Formatter):
    def __init__(self, redact: Callable[[str], str]) -> None:
        super().__init__()
        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        return self._redact(self._line(record))

    def _line(self, record: logging.LogRecord) -> str:
        raise NotImplementedError

    def _trouble(self, record: logging.LogRecord) -> str | None:
        if record.exc_info and record.exc_info[0] is not None:
            return self.formatException(record.exc_info)
        return None


class TextLines(_Lines):
    """`10:42:07 warning holdfast.worker: trying again (chat 0193…, attempt 2)`"""

    def _line(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created).strftime("%H:%M:%S")
        words = f"{at} {record.levelname.lower()} {record.name}: {record.getMessage()}"
        about = ", ".join(f"{name} {value}" for name, value in place().items())
        if about:
            words += f" ({about})"
        trouble = self._trouble(record)
        return words if trouble is None else f"{words}\n{trouble}"


class JsonLines(_Lines):
    """One object a line: `time`, `level`, `logger`, `message`, the place, and `error`."""

    def _line(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC)
        line: dict[str, Any] = {
            "time": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _plain(record.getMessage()),
            **place(),
        }
        trouble = self._trouble(record)
        if trouble is not None:
            line["error"] = _plain(trouble)
        return msgspec.json.encode(line, enc_hook=str).decode()


def _plain(text: str) -> str:
    """Half of a pair of surrogates, which a model or a file name may have, is no reason to be
    silent."""
    return text.encode(errors="backslashreplace").decode()


def set_up_logs(
    form: LogFormat,
    level: LogLevel,
    redact: Callable[[str], str],
    stream: TextIO | None = None,
) -> Callable[[], None]:
    """Write the log of this process, ours from `level` up and that of libraries from warnings up.

    The result takes it back.
    """
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter((JsonLines if form == "json" else TextLines)(redact))
    root, ours = logging.getLogger(), logging.getLogger("holdfast")
    before = ours.level
    root.addHandler(handler)
    ours.setLevel(level.upper())

    def take_back() -> None:
        root.removeHandler(handler)
        ours.setLevel(before)

    return take_back
