"""A scripted model: plays the answers and failures that a test defines.

    model = ScriptedModel(
        [
            [say("Let me look."), call("weather", city="Oslo")],
            say("It is sunny."),
        ]
    )

A turn is what one call of `stream` yields: an item, or a list of items, or a function of the
request that returns one of these. Items:

- `say` (a `str` is short for it), `think`, `call`, `call_raw`, `source`, `file`, `notice`, `ping`;
- trouble: `fail`, `cut`, `hang`, `pause`;
- `usage` and `finish`, which say how the turn ends; without them it ends as its content suggests;
- any `Delta`, as it is;
- an `anyio.Event`: the stream waits for it;
- a function of the request (also an async one): called when the stream gets there.

Lists may stand inside lists.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import Any, Final, TypeAlias, Union, cast, get_args

import anyio
import anyio.lowlevel
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.kernel.errors import FailureKind, HoldfastError, ProviderError
from holdfast.kernel.messages import File, FinishReason, Metadata, Source, Usage
from holdfast.kernel.model import (
    ArgumentsDelta,
    CallEnded,
    CallStarted,
    Delta,
    Finished,
    Notice,
    PartAdded,
    PartEnded,
    Ping,
    ReasoningDelta,
    Request,
    TextDelta,
)


class ScriptedCall(Struct, frozen=True):
    """A call in a script: made by `call` and `call_raw`."""

    tool: str
    arguments: str
    id: str | None
    chunks: int
    ended: bool
    provider_executed: bool
    metadata: Metadata | None


class Cut(Struct, frozen=True):
    """Where a stream ends without saying so: made by `cut`."""


class Fault(Struct, frozen=True):
    """Trouble that only a connection can have: see `holdfast.testing.fake`."""


ScriptItem: TypeAlias = Union[
    str,
    Delta,
    Usage,
    ScriptedCall,
    Cut,
    Fault,
    anyio.Event,
    Callable[[Any], object],
    "Sequence[ScriptItem]",
]
ScriptedTurn: TypeAlias = ScriptItem | Callable[[Any], ScriptItem]
"""A function is given what was asked: a `Request`, or what a fake provider received."""


class ScriptEnded(HoldfastError):
    """The model was called more often than its script has turns."""

    def __init__(self, turns: int, request: object) -> None:
        messages = request.messages if isinstance(request, Request) else ()
        last = messages[-1] if messages else None
        about = f"; the last message is of the {last.role}: {last.text[:80]!r}" if last else ""
        super().__init__(
            f"the script has {turns} {'turn' if turns == 1 else 'turns'}, "
            f"and the model was called once more{about}"
        )
        self.turns = turns


# --- Items --------------------------------------------------------------------------------------


def say(text: str, *, chunks: int = 1) -> ScriptItem:
    """Text of the answer, in this many deltas."""
    return [TextDelta(piece) for piece in _pieces(text, chunks)]


def think(text: str, *, signature: str | None = None, chunks: int = 1) -> ScriptItem:
    """Reasoning, whole: a part of its own, with what the provider wants back."""
    deltas: list[ScriptItem] = [ReasoningDelta(piece) for piece in _pieces(text, chunks)]
    return [*deltas, PartEnded(signature)]


def call(tool: str, /, **arguments: Any) -> ScriptItem:
    """A complete call of a tool. Ids are counted: `call_1`, `call_2`, …"""
    return call_raw(tool, msgspec.json.encode(arguments).decode())


def call_raw(
    tool: str,
    arguments: str,
    *,
    id: str | None = None,
    chunks: int = 2,
    ended: bool = True,
    provider_executed: bool = False,
    metadata: Metadata | None = None,
) -> ScriptItem:
    """A call as some model might write it: arguments that are no JSON, an id twice, `""` for none.

    `ended=False` leaves it incomplete, as when an answer is cut in the middle of a call.
    """
    return ScriptedCall(tool, arguments, id, chunks, ended, provider_executed, metadata)


def source(url: str, title: str | None = None) -> ScriptItem:
    return PartAdded(Source(url, title))


def file(media_type: str, data: bytes, name: str | None = None) -> ScriptItem:
    return PartAdded(File(media_type, name, data))


def notice(text: str) -> ScriptItem:
    return Notice(text)


def ping() -> ScriptItem:
    return Ping()


def usage(
    *,
    input: int = 0,
    output: int = 0,
    reasoning: int = 0,
    cache_read: int = 0,
    cache_write: int = 0,
) -> ScriptItem:
    """What the turn reports at its end, wherever in the turn this stands."""
    return Usage(input, output, reasoning, cache_read, cache_write)


def finish(
    reason: FinishReason, *, window: int | None = None, metadata: Metadata | None = None
) -> ScriptItem:
    """End the turn for this reason instead of the one its content suggests."""
    return Finished(reason, None, metadata, window)


def fail(
    error: BaseException | str = "",
    *,
    status: int | None = None,
    code: str | None = None,
    retry_after: float | None = None,
    should_retry: bool | None = None,
    kind: FailureKind | None = None,
) -> ScriptItem:
    """Raise at this point: the exception given, or a `ProviderError` with these facts."""

    def fail_now(request: Request) -> None:
        if isinstance(error, BaseException):
            raise error
        raise ProviderError(
            error,
            status=status,
            code=code,
            retry_after=retry_after,
            should_retry=should_retry,
            kind=kind,
        )

    return [fail_now]  # a list, because a function alone would stand for a whole turn


def pause(seconds: float) -> ScriptItem:
    """Say nothing for a while. In virtual time, whatever else can happen happens meanwhile."""

    def pause_now(request: Request) -> Awaitable[None]:
        return anyio.sleep(seconds)

    return [pause_now]


def hang() -> ScriptItem:
    """Say nothing any more, until cancelled."""

    def hang_now(request: Request) -> Awaitable[None]:
        return anyio.sleep_forever()

    return [hang_now]


def cut() -> ScriptItem:
    """End the stream here, politely and without `Finished`: what a broken proxy does."""
    return Cut()


# --- Playing it ---------------------------------------------------------------------------------

PlayStep: TypeAlias = Delta | Fault | Callable[[Any], object]
ITEM_TYPES: Final = (*get_args(Delta), Usage, ScriptedCall, Cut, Fault, anyio.Event)


class ScriptPlayer:
    """What is left of a script, turn by turn, as steps to take."""

    def __init__(
        self, script: Sequence[ScriptedTurn] = (), default: ScriptedTurn | None = None
    ) -> None:
        self._script = [script] if isinstance(script, str) else list(script)
        self._default = default
        self._played = 0
        self._ids = 0
        # Prepared ahead, because a benchmark should not pay for it; as far as ids are known ahead.
        self._ready: list[list[PlayStep]] = []
        for turn in self._script:
            if callable(turn):
                break
            self._ready.append(self._prepare(turn))

    @property
    def left(self) -> int:
        """How many turns have not been played."""
        return max(0, len(self._script) - self._played)

    def take(self) -> int:
        """The number of the turn that is played now."""
        self._played += 1
        return self._played - 1

    def steps(self, number: int, request: object) -> list[PlayStep]:
        if number < len(self._ready):
            return self._ready[number]
        turn = self._script[number] if number < len(self._script) else self._default
        if turn is None:
            raise ScriptEnded(len(self._script), request)
        return self._prepare(_turn_for(turn, request))

    def _prepare(self, turn: ScriptItem) -> list[PlayStep]:
        """A turn as what is left to do when it is played: mostly deltas to yield."""
        steps: list[PlayStep] = []
        reported: Usage | None = None
        ended = False
        for item in _flat(turn):
            if ended:
                raise ValueError("a turn ends at cut(): nothing can follow it")
            match item:
                case Usage():
                    reported = item
                case ScriptedCall():
                    steps += self._spell(item)
                case Cut():
                    ended = True
                case anyio.Event():
                    steps.append(_waiting_for(item))
                case _:
                    steps.append(cast(PlayStep, item))
        if not ended and not any(isinstance(step, Finished) for step in steps):
            steps.append(Finished(_reason(steps)))
        if reported is None:
            return steps
        return [
            replace(step, usage=reported) if isinstance(step, Finished) else step for step in steps
        ]

    def _spell(self, call: ScriptedCall) -> Iterator[Delta]:
        """A call as a provider streams it."""
        id = call.id
        if id is None:
            self._ids += 1
            id = f"call_{self._ids}"
        yield CallStarted(id, call.tool, call.provider_executed)
        if call.arguments:
            for piece in _pieces(call.arguments, call.chunks):
                yield ArgumentsDelta(id, piece)
        if call.ended:
            yield CallEnded(id, call.metadata)


class ScriptedModel:
    """A `Model` that plays a script, one turn for each call of `stream`."""

    def __init__(
        self,
        script: Sequence[ScriptedTurn] = (),
        *,
        default: ScriptedTurn | None = None,
        name: str = "scripted:model",
        window: int | None = None,
    ) -> None:
        """`default` is played whenever the script has ended; without it, that is an error."""
        self.name = name
        self.window = window
        self.requests: list[Request] = []
        """Every request so far, the failed ones too."""
        self._script = ScriptPlayer(script, default)

    @property
    def left(self) -> int:
        """How many turns of the script have not been played."""
        return self._script.left

    def stream(self, request: Request) -> AsyncIterator[Delta]:
        self.requests.append(request)
        return self._play(self._script.take(), request)

    async def _play(self, number: int, request: Request) -> AsyncIterator[Delta]:
        for step in self._script.steps(number, request):
            if isinstance(step, Fault):
                raise TypeError(f"{step!r} needs a connection: give it to a FakeProvider")
            if not callable(step):
                yield step
            elif inspect.isawaitable(done := step(request)):
                await done
            else:
                # So that an interrupt made by this very function takes effect right here.
                await anyio.lowlevel.checkpoint()


def _turn_for(turn: ScriptedTurn, request: object) -> ScriptItem:
    if not callable(turn):
        return turn
    made = turn(request)
    if made is None:
        raise TypeError(
            "a turn that is a function returns the turn; "
            "to call a function while streaming, put it into a list: [function]"
        )
    return cast(ScriptItem, made)


def _reason(steps: Sequence[PlayStep]) -> FinishReason:
    """Why a provider would say that it finished."""
    for step in steps:
        if isinstance(step, CallStarted) and not step.provider_executed:
            return "tool_calls"
    return "stop"


def _flat(item: ScriptItem) -> Iterator[ScriptItem]:
    if isinstance(item, str):
        yield TextDelta(item)
    elif isinstance(item, (list, tuple)):
        for inner in item:
            yield from _flat(inner)
    elif callable(item) or isinstance(item, ITEM_TYPES):
        yield item
    else:
        raise TypeError(f"{item!r} is no item of a script")


def _pieces(text: str, count: int) -> list[str]:
    """The text in `count` pieces of about the same length; in fewer when it is short."""
    if count < 1:
        raise ValueError(f"chunks is {count}: use at least 1")
    size = max(1, -(-len(text) // count))
    return [text[at : at + size] for at in range(0, len(text), size)] or [""]


def _waiting_for(event: anyio.Event) -> Callable[[Request], Awaitable[None]]:
    def wait(request: Request) -> Awaitable[None]:
        return event.wait()

    return wait
