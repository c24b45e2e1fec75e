"""Recordings of model calls: requests and deltas, in one file per chat.

For inspecting a turn, and for replaying it in a test (`holdfast.testing.recorded`). Off by default.
Each line is JSON: a `request`, its `delta`s, and an `end`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final
from urllib.parse import quote

import msgspec

from holdfast.kernel.errors import ConfigError, classify
from holdfast.kernel.messages import encode
from holdfast.kernel.model import (
    ArgumentsDelta,
    Delta,
    Model,
    ReasoningDelta,
    Request,
    TextDelta,
    close,
)
from holdfast.kernel.observer import ChatObserver, Observer, Stretch
from holdfast.kernel.ports import wall_clock
from holdfast.observe.redact import default_redactor

LOG: Final = logging.getLogger("holdfast")


class Recorder(Observer):
    """Observer that records model calls: a file per chat and per run in memory, in a directory that
    only its owner can read."""

    def __init__(
        self,
        directory: str,
        redact: Callable[[str], str] | None = None,
        now: Callable[[], int] = wall_clock,
    ) -> None:
        """`redact` removes secrets: by default, values of environment variables that are named like
        secrets."""
        try:
            os.makedirs(directory, mode=0o700, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                f"cannot record in {directory} ({error.strerror}): use another directory"
            ) from None
        self.directory = directory
        self._redact = redact or default_redactor()
        self._now = now

    def drives(self, stretch: Stretch) -> ChatObserver:
        return _Recorded(self, stretch, quote(stretch.id, safe=""))

    def names(self, stretch: Stretch) -> ChatObserver:
        """Record titles in a separate file; the main file can be replayed as the chat's turns."""
        return _Recorded(self, stretch, f"{quote(stretch.id, safe='')}.title")

    def write(self, name: str, stretch: Stretch, lines: Sequence[dict[str, Any]]) -> None:
        """Append lines to a recording. A failed write is logged and does not fail the turn."""
        head = {"at": self._now(), "epoch": stretch.epoch, "attempt": stretch.attempt()}
        text = "".join(f"{encode({**head, **line}).decode()}\n" for line in lines)
        path = os.path.join(self.directory, f"{name}.jsonl")
        try:
            file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            with open(file, "w", encoding="utf-8") as out:
                out.write(self._redact(text))
        except OSError as error:
            LOG.warning("cannot write a recording: %s", error)

    def redacted(self, deltas: Sequence[Delta]) -> Iterator[Delta]:
        """Deltas without secrets; deltas whose joined text contains one are merged."""
        for run in _runs(deltas):
            first = run[0]
            if not isinstance(first, (TextDelta, ReasoningDelta, ArgumentsDelta)):
                yield first
                continue
            text = "".join(one.text for one in run)  # type: ignore[union-attr]
            hidden = self._redact(text)
            if hidden == text:
                yield from run
            else:
                yield msgspec.structs.replace(first, text=hidden)


class _Recorded(ChatObserver):
    def __init__(self, recorder: Recorder, stretch: Stretch, name: str) -> None:
        self._write = partial(recorder.write, name, stretch)
        self._redacted = recorder.redacted

    def asks(self, model: Model, request: Request) -> Model:
        return _Model(model, self._write, self._redacted)


class _Model:
    """Wraps a model and records its calls."""

    def __init__(
        self,
        model: Model,
        write: Callable[[Sequence[dict[str, Any]]], None],
        redacted: Callable[[Sequence[Delta]], Iterator[Delta]],
    ) -> None:
        self._model = model
        self._write = write
        self._redacted = redacted

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def window(self) -> int | None:
        return self._model.window

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        line = {"what": "request", "model": self.name, "request": request}
        self._write([line])  # first, in case the process dies
        deltas: list[Delta] = []
        end: dict[str, Any] = {"what": "end"}
        stream = self._model.stream(request)
        try:
            async for delta in stream:
                deltas.append(delta)
                yield delta
        except BaseException as error:
            end["error"] = _error(error)
            raise
        finally:
            self._write([*map(_line, self._redacted(deltas)), end])
            await close(stream)


def _error(error: BaseException) -> dict[str, str]:
    if not isinstance(error, Exception):  # cancelled here, not a failure of the model
        return {"type": type(error).__name__}
    return {"type": type(error).__name__, "kind": classify(error).kind, "message": str(error)}


def _line(delta: Delta) -> dict[str, Any]:
    return {"what": "delta", "kind": type(delta).__name__, "delta": delta}


def _runs(deltas: Sequence[Delta]) -> Iterator[Sequence[Delta]]:
    """Groups of neighbouring deltas that are pieces of one text."""
    run: list[Delta] = []
    for delta in deltas:
        if run and _text_of(delta) != _text_of(run[-1]):
            yield run
            run = []
        run.append(delta)
    if run:
        yield run


def _text_of(delta: Delta) -> object:
    if isinstance(delta, (TextDelta, ReasoningDelta)):
        return type(delta)
    if isinstance(delta, ArgumentsDelta):
        return delta.call_id
    return delta, object()  # equal to nothing
