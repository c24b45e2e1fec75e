"""Who is told what a worker does: the one seam for numbers, traces and recordings.

A worker has one `Observer`, and each chat that it drives has a `Witness` from it. Both are called
where things happen, on the event loop, and between two steps: they have to be quick, wait for
nothing and raise nothing. Nobody is told of single deltas.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from holdfast.kernel.errors import Failure
from holdfast.kernel.messages import Finish, Message, Outcome, Usage
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
from holdfast.kernel.way import Middleware

Purpose: TypeAlias = Literal["answer", "summary", "title"]


class Stretch(Struct, frozen=True):
    """A chat in the hands of one worker, from its claim to its rest."""

    chat: str
    agent: str
    worker: str
    epoch: int
    attempt: Callable[[], int]
    """Which attempt at the next step it is, now."""


class Said(Struct, frozen=True):
    """What came of asking a model once."""

    model: str
    """Who answered, or was to."""
    seconds: float
    first: float | None = None
    """Seconds to the first delta, of an answer that is complete."""
    usage: Usage | None = None
    finish: Finish | None = None
    """Why the model stopped; None when it did not come to that."""
    error: BaseException | None = None
    message: Callable[[], Message] | None = None
    """The answer itself, for who asks for it; only of one that is complete."""
    why: Purpose = "answer"
    """What it was asked for."""


class Witness:
    """Sees one chat while it is driven here. This one looks away."""

    around: tuple[Middleware, ...] = ()
    """Wrapped around the run of every tool call."""

    def begins(self) -> None:
        """In the task that drives the chat, and in front of everything else."""

    def asks(self, model: Model, request: Request) -> Model:
        """A model is about to be asked. Gives back who is: it, or something around it."""
        return model

    def answered(self, said: Said) -> None:
        """The end of what `asks` was the beginning of, whatever it is."""

    def called(self, tool: str, outcome: Outcome, seconds: float) -> None:
        """A tool call has its result. `tool` is empty for one that there is not."""

    def retries(self, failure: Failure) -> None:
        """An attempt failed, and there will be another."""

    def compacted(self, summarized: bool) -> None:
        """The history was shortened, by a summary or without one."""

    def turned(self, reason: str, failure: Failure | None = None) -> None:
        """A turn came to its end, or to where somebody has to act."""

    def ends(self) -> None:
        """The chat rests, or is somebody else's. The last that is heard."""


class Observer:
    """Sees one worker. This one looks away."""

    def claimed(self, taken_over: bool) -> None:
        """A chat was claimed; `taken_over`: from a worker that died."""

    def drives(self, stretch: Stretch) -> Witness:
        """A chat is about to be driven. `begins` follows."""
        return NOBODY

    def names(self, stretch: Stretch) -> Witness:
        """A chat at rest is about to be given a title: one model call, and nothing else is heard.

        It is not driven meanwhile, so neither `begins` nor `ends` is called.
        """
        return NOBODY


NOBODY = Witness()
UNOBSERVED = Observer()


def several(observers: Sequence[Observer]) -> Observer:
    """All of them as one."""
    if not observers:
        return UNOBSERVED
    return observers[0] if len(observers) == 1 else _Observers(observers)


class _Observers(Observer):
    def __init__(self, observers: Sequence[Observer]) -> None:
        self._all = tuple(observers)

    def claimed(self, taken_over: bool) -> None:
        for one in self._all:
            one.claimed(taken_over)

    def drives(self, stretch: Stretch) -> Witness:
        return _Witnesses([one.drives(stretch) for one in self._all])

    def names(self, stretch: Stretch) -> Witness:
        return _Witnesses([one.names(stretch) for one in self._all])


class _Witnesses(Witness):
    def __init__(self, witnesses: Sequence[Witness]) -> None:
        self._all = tuple(one for one in witnesses if one is not NOBODY)
        self.around = tuple(middleware for one in self._all for middleware in one.around)

    def begins(self) -> None:
        for one in self._all:
            one.begins()

    def asks(self, model: Model, request: Request) -> Model:
        for one in self._all:
            model = one.asks(model, request)
        return model

    def answered(self, said: Said) -> None:
        for one in self._all:
            one.answered(said)

    def called(self, tool: str, outcome: Outcome, seconds: float) -> None:
        for one in self._all:
            one.called(tool, outcome, seconds)

    def retries(self, failure: Failure) -> None:
        for one in self._all:
            one.retries(failure)

    def compacted(self, summarized: bool) -> None:
        for one in self._all:
            one.compacted(summarized)

    def turned(self, reason: str, failure: Failure | None = None) -> None:
        for one in self._all:
            one.turned(reason, failure)

    def ends(self) -> None:
        for one in reversed(self._all):
            one.ends()


class Watched:
    """A model for summaries and titles, whose every call a witness hears of.

    Whoever makes summaries may ask several times, and tells nobody. It looks at each delta, which
    an answer could not afford.
    """

    def __init__(
        self,
        model: Model,
        witness: Witness,
        clock: Callable[[], float],
        why: Purpose = "summary",
    ) -> None:
        self._model = model
        self._witness = witness
        self._clock = clock
        self._why = why

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def window(self) -> int | None:
        return self._model.window

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        asked = self._witness.asks(self._model, request)
        name, began, first = asked.name, self._clock(), None
        finished = Finished(finish="interrupted")
        error: BaseException | None = None
        stream = asked.stream(request)
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
            said = Said(name, took, early, finished.usage, whole, error, why=self._why)
            self._witness.answered(said)
            await close(stream)
