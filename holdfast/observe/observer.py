"""The `Observer` protocol: the one interface for metrics, traces and recordings of a worker.

A worker has one `Observer`, and each chat that it drives gets a `ChatObserver` from it. Both are
called on the event loop, between steps: they must be quick, never wait and never raise. They are
not notified of single deltas.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from holdfast.kernel.call_admission import Middleware
from holdfast.kernel.errors import Failure
from holdfast.kernel.messages import FinishReason, Message, ToolOutcome, Usage
from holdfast.kernel.model import (
    Delta,
    Finished,
    Model,
    Notice,
    Opened,
    Ping,
    Request,
    close,
)

Purpose: TypeAlias = Literal["answer", "summary", "title"]
Compaction: TypeAlias = Literal["summary", "trim", "failed", "interrupted", "no_progress"]
"""Outcome of a compaction; `no_progress` ends a turn that is too large even after a summary."""


class Stretch(Struct, frozen=True):
    """The time for which one worker drives a chat, from claim to release."""

    chat: str
    agent: str
    worker: str
    epoch: int
    attempt: Callable[[], int]
    """Current number of the attempt at the next step."""


class ModelCallOutcome(Struct, frozen=True):
    """Outcome of one model call."""

    model: str
    """Model that was called, as `provider:model`."""
    seconds: float
    """Duration of the call."""
    first: float | None = None
    """Seconds to the first delta of a complete answer."""
    usage: Usage | None = None
    finish: FinishReason | None = None
    """Why the model stopped; None if the call failed."""
    error: BaseException | None = None
    message: Callable[[], Message] | None = None
    """Function that returns the answer; None unless it is complete."""
    why: Purpose = "answer"
    """Purpose of the call."""


class ChatObserver:
    """Observer of one chat while it is driven here. The base class ignores everything."""

    around: tuple[Middleware, ...] = ()
    """Middleware around the run of every tool call."""

    def begins(self) -> None:
        """Driving starts. Called first, in the task that drives the chat."""

    def asks(self, model: Model, request: Request) -> Model:
        """A model is about to be called. Returns the model to call: this one, or a wrapper."""
        return model

    def answered(self, outcome: ModelCallOutcome) -> None:
        """The model call that `asks` announced has ended, successfully or not."""

    def called(self, tool: str, outcome: ToolOutcome, seconds: float, size: int) -> None:
        """A tool call has its result, of `size` bytes. `tool` is empty for an unknown tool."""

    def retries(self, failure: Failure) -> None:
        """An attempt failed and will be retried."""

    def compacted(self, outcome: Compaction) -> None:
        """A compaction ended, successfully or not."""

    def turned(self, reason: str, failure: Failure | None = None) -> None:
        """A turn ended, or waits for an action."""

    def ends(self) -> None:
        """Driving ended: the chat is idle or has another owner. Called last."""


class Observer:
    """Observer of one worker. The base class ignores everything."""

    def claimed(self, taken_over: bool) -> None:
        """A chat was claimed; `taken_over` from a worker that died."""

    def drives(self, stretch: Stretch) -> ChatObserver:
        """A chat is about to be driven; `begins` follows."""
        return UNOBSERVED_CHAT

    def names(self, stretch: Stretch) -> ChatObserver:
        """A title of an idle chat is about to be generated, with one model call.

        The chat is not driven meanwhile, so neither `begins` nor `ends` is called.
        """
        return UNOBSERVED_CHAT


UNOBSERVED_CHAT = ChatObserver()
UNOBSERVED = Observer()


def several(observers: Sequence[Observer]) -> Observer:
    """Combine several observers to one."""
    if not observers:
        return UNOBSERVED
    return observers[0] if len(observers) == 1 else _Observers(observers)


class _Observers(Observer):
    def __init__(self, observers: Sequence[Observer]) -> None:
        self._all = tuple(observers)

    def claimed(self, taken_over: bool) -> None:
        for one in self._all:
            one.claimed(taken_over)

    def drives(self, stretch: Stretch) -> ChatObserver:
        return _ChatObservers([one.drives(stretch) for one in self._all])

    def names(self, stretch: Stretch) -> ChatObserver:
        return _ChatObservers([one.names(stretch) for one in self._all])


class _ChatObservers(ChatObserver):
    def __init__(self, observers: Sequence[ChatObserver]) -> None:
        self._all = tuple(one for one in observers if one is not UNOBSERVED_CHAT)
        self.around = tuple(middleware for one in self._all for middleware in one.around)

    def begins(self) -> None:
        for one in self._all:
            one.begins()

    def asks(self, model: Model, request: Request) -> Model:
        for one in self._all:
            model = one.asks(model, request)
        return model

    def answered(self, outcome: ModelCallOutcome) -> None:
        for one in self._all:
            one.answered(outcome)

    def called(self, tool: str, outcome: ToolOutcome, seconds: float, size: int) -> None:
        for one in self._all:
            one.called(tool, outcome, seconds, size)

    def retries(self, failure: Failure) -> None:
        for one in self._all:
            one.retries(failure)

    def compacted(self, outcome: Compaction) -> None:
        for one in self._all:
            one.compacted(outcome)

    def turned(self, reason: str, failure: Failure | None = None) -> None:
        for one in self._all:
            one.turned(reason, failure)

    def ends(self) -> None:
        for one in reversed(self._all):
            one.ends()


class ObservedModel:
    """A model for summaries and titles that notifies an observer of every call.

    It inspects each delta, which would be too slow for answers.
    """

    def __init__(
        self,
        model: Model,
        observer: ChatObserver,
        clock: Callable[[], float],
        why: Purpose = "summary",
    ) -> None:
        self._model = model
        self._observer = observer
        self._clock = clock
        self._why = why

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def window(self) -> int | None:
        return self._model.window

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        called = self._observer.asks(self._model, request)
        name, began, first = called.name, self._clock(), None
        finished = Finished(finish="interrupted")
        error: BaseException | None = None
        stream = called.stream(request)
        try:
            async for delta in stream:
                if isinstance(delta, Opened):
                    name = delta.model
                elif first is None and not isinstance(delta, (Notice, Ping)):
                    first = self._clock() - began
                if isinstance(delta, Finished):
                    finished = delta
                elif isinstance(delta, Ping) and delta.usage is not None:
                    finished = replace(finished, usage=delta.usage)
                yield delta
        except BaseException as raised:
            error = raised
            raise
        finally:
            whole = finished.finish if finished.finish != "interrupted" else None
            took, early = self._clock() - began, first if whole else None
            outcome = ModelCallOutcome(
                name, took, early, finished.usage, whole, error, why=self._why
            )
            self._observer.answered(outcome)
            await close(stream)
