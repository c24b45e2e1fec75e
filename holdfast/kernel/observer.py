"""The `Observer` protocol: the one interface for metrics, traces and recordings.

An `Observer` watches a process, a host or an agent. Each run in memory, and each chat that a worker
drives, gets a `ChatObserver` from it. Both are called on the event loop, between steps: they must
be quick, never wait and never raise. They are not notified of single deltas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from holdfast.kernel.call_admission import Middleware
from holdfast.kernel.errors import Failure
from holdfast.kernel.messages import FinishReason, Message, ToolResult, Usage
from holdfast.kernel.model import Model, Request

Purpose: TypeAlias = Literal["answer", "summary", "title"]
Compaction: TypeAlias = Literal["summary", "trim", "failed", "interrupted", "no_progress"]
"""Outcome of a compaction; `no_progress` ends a turn that is too large even after a summary."""


class Stretch(Struct, frozen=True, kw_only=True):
    """What is observed: a run in memory, or the time for which one worker drives a chat, from claim
    to release."""

    id: str
    """Id of the chat; of a run in memory, an id of its own."""
    agent: str
    """Name of the agent."""
    model: str
    """Model at the start, as `provider:model`."""
    attempt: Callable[[], int]
    """Current number of the attempt at the next step."""
    conversation: str | None
    """Id of the conversation: the chat's; of a run in memory, the one set by `conversation`."""
    parent: str | None = None
    """Chat that spawned this one."""
    worker: str | None = None
    """Worker that drives the chat; None for a run in memory."""
    epoch: int = 0
    causes: Callable[[], Sequence[str]] = tuple
    """Function that returns the trace contexts (`traceparent`) of the callers that made a chat
    work."""


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


class ToolCallOutcome(Struct, frozen=True):
    """Outcome of one tool call."""

    result: ToolResult
    known: bool
    """Whether the agent has a tool of this name: a model may invent any number of names."""
    seconds: float
    """Run time of the tool's function; 0 if it never ran."""


class ChatObserver:
    """Observer of one chat or run while it is driven here. The base class ignores everything."""

    around: tuple[Middleware, ...] = ()
    """Middleware around the run of every tool call."""

    def begins(self) -> None:
        """Driving starts. Called first, in the task that drives the chat or run."""

    def asks(self, model: Model, request: Request) -> Model:
        """A model is about to be called. Returns the model to call: this one, or a wrapper."""
        return model

    def answered(self, outcome: ModelCallOutcome) -> None:
        """The model call that `asks` announced has ended, successfully or not."""

    def called(self, outcome: ToolCallOutcome) -> None:
        """A tool call has its result, which may also say that it never ran."""

    def retries(self, failure: Failure) -> None:
        """An attempt failed and will be retried."""

    def compacted(self, outcome: Compaction) -> None:
        """A compaction ended, successfully or not."""

    def turned(self, reason: str, failure: Failure | None = None) -> None:
        """A turn ended, or waits for an action."""

    def ends(self) -> None:
        """Driving ended: the run ended, or the chat is idle or has another owner. Called last."""


class Observer:
    """Observer of a process, a host or an agent. The base class ignores everything."""

    def claimed(self, taken_over: bool) -> None:
        """A chat was claimed; `taken_over` from a worker that died."""

    def drives(self, stretch: Stretch) -> ChatObserver:
        """A chat or run is about to be driven; `begins` follows."""
        return UNOBSERVED_CHAT

    def names(self, stretch: Stretch) -> ChatObserver:
        """A title of an idle chat is about to be generated, with one model call.

        The chat is not driven meanwhile, so neither `begins` nor `ends` is called.
        """
        return UNOBSERVED_CHAT


UNOBSERVED_CHAT: Final = ChatObserver()
UNOBSERVED: Final = Observer()


# --- who is observed ----------------------------------------------------------------------------


class _Process:
    """The observer of this process."""

    observer: Observer = UNOBSERVED


def observe_process(observer: Observer) -> Callable[[], None]:
    """Observe every agent of this process that starts from now on, instead of an earlier observer.

    Returns a function that ends it.
    """
    _Process.observer = observer

    def undo() -> None:
        if _Process.observer is observer:
            _Process.observer = UNOBSERVED

    return undo


def observer_of(own: Observer | None, host: Observer = UNOBSERVED) -> Observer:
    """Everything that observes an agent: the process's observer, its host's and its own."""
    process = _Process.observer
    if process is UNOBSERVED and own is None:
        return host
    return several([process, host, own or UNOBSERVED])


_CONVERSATION: Final[ContextVar[str | None]] = ContextVar("conversation", default=None)


@contextmanager
def conversation(id: str) -> Iterator[None]:
    """Runs in memory that start inside the block belong to this conversation.

    Traces then carry its id. A durable chat is a conversation of its own.
    """
    token = _CONVERSATION.set(id)
    try:
        yield
    finally:
        _CONVERSATION.reset(token)


def current_conversation() -> str | None:
    """Id of the conversation that `conversation` has set; None outside of one."""
    return _CONVERSATION.get()


# --- several observers --------------------------------------------------------------------------


def several(observers: Sequence[Observer]) -> Observer:
    """Combine several observers to one."""
    unique = tuple(dict.fromkeys(one for one in observers if one is not UNOBSERVED))
    if not unique:
        return UNOBSERVED
    return unique[0] if len(unique) == 1 else _Observers(unique)


class _Observers(Observer):
    def __init__(self, observers: Sequence[Observer]) -> None:
        self._all = tuple(observers)

    def claimed(self, taken_over: bool) -> None:
        for one in self._all:
            one.claimed(taken_over)

    def drives(self, stretch: Stretch) -> ChatObserver:
        return _combined([one.drives(stretch) for one in self._all])

    def names(self, stretch: Stretch) -> ChatObserver:
        return _combined([one.names(stretch) for one in self._all])


def _combined(observers: Sequence[ChatObserver]) -> ChatObserver:
    watching = [one for one in observers if one is not UNOBSERVED_CHAT]
    if not watching:
        return UNOBSERVED_CHAT
    return watching[0] if len(watching) == 1 else _ChatObservers(watching)


class _ChatObservers(ChatObserver):
    def __init__(self, observers: Sequence[ChatObserver]) -> None:
        self._all = tuple(observers)
        self.around = tuple(middleware for one in self._all for middleware in one.around)

    def begins(self) -> None:
        for one in self._all:
            one.begins()

    def asks(self, model: Model, request: Request) -> Model:
        for one in self._all:
            model = one.asks(model, request)
        return model

    def answered(self, outcome: ModelCallOutcome) -> None:
        for one in reversed(self._all):
            one.answered(outcome)

    def called(self, outcome: ToolCallOutcome) -> None:
        for one in self._all:
            one.called(outcome)

    def retries(self, failure: Failure) -> None:
        for one in self._all:
            one.retries(failure)

    def compacted(self, outcome: Compaction) -> None:
        for one in self._all:
            one.compacted(outcome)

    def turned(self, reason: str, failure: Failure | None = None) -> None:
        for one in reversed(self._all):
            one.turned(reason, failure)

    def ends(self) -> None:
        for one in reversed(self._all):
            one.ends()
