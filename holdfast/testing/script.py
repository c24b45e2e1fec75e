"""A scripted model: plays the answers and failures that a test defines.

    model = ScriptedModel(
        [
            [say("Let me look."), call("weather", city="Oslo")],
            say("It is sunny."),
        ]
    )

A turn is what one call of `stream` yields: an item, a list of items, or a function of the request
that returns one of these. Items:

- `say` (a `str` is short for it), `think`, `call`, `call_raw`, `source`, `file`, `notice`, `ping`;
- failures and delays: `fail`, `cut`, `hang`, `pause`;
- `usage` and `finish`, which set how the turn ends; without them that follows from its content;
- any `Delta`, which is yielded unchanged;
- an `anyio.Event`: the stream waits for it;
- a function of the request, possibly async: called when the stream gets there.

Lists may be nested.
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

from holdfast.kernel.errors import ConfigError, FailureKind, ProviderError
from holdfast.kernel.messages import File, FinishReason, Message, Metadata, Source, Usage
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
    """A tool call in a script, created by `call` and `call_raw`."""

    tool: str
    arguments: str
    id: str | None
    chunks: int
    ended: bool
    provider_executed: bool
    metadata: Metadata | None


class Cut(Struct, frozen=True):
    """End of a stream without `Finished`, created by `cut`."""


class Fault(Struct, frozen=True):
    """Base of the faults that only a connection can have: see `holdfast.testing.fake`."""


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
"""A part of a turn: text, a delta, a call, a fault, an event to wait for, a function to call with
the request, or a sequence of these."""
ScriptedTurn: TypeAlias = ScriptItem | Callable[[Any], ScriptItem]
"""A turn of a script. A function gets the request: a `Request`, or what a fake provider
received."""


QUOTED: Final = 400
"""Maximum length of a quoted message."""


class ScriptEnded(ConfigError):
    """The model was called more often than its script has turns."""

    def __init__(self, turns: int, request: object) -> None:
        messages = request.messages if isinstance(request, Request) else ()
        super().__init__(
            f"the script has {turns} {'turn' if turns == 1 else 'turns'}, and the model was called "
            f"once more: add a turn, or set default{_about(messages[-1]) if messages else ''}"
        )
        self.turns = turns


def _about(last: Message) -> str:
    """The last message of a request, of a long one the end: there it says what is wanted."""
    text = last.text or "\n".join(result.text for result in last.results)
    end = text if len(text) <= QUOTED else f"…{text[-QUOTED:]}"
    printable = end.encode(errors="backslashreplace").decode()  # halves of surrogate pairs
    return f". The last message is of the {last.role}:\n{printable}"


# --- Items --------------------------------------------------------------------------------------


def say(text: str, *, chunks: int = 1) -> ScriptItem:
    """Text of the answer, in `chunks` deltas."""
    return [TextDelta(piece) for piece in _pieces(text, chunks)]


def think(text: str, *, signature: str | None = None, chunks: int = 1) -> ScriptItem:
    """Reasoning as a part of its own, with the signature that the provider wants back."""
    deltas: list[ScriptItem] = [ReasoningDelta(piece) for piece in _pieces(text, chunks)]
    return [*deltas, PartEnded(signature)]


def call(tool: str, /, **arguments: Any) -> ScriptItem:
    """A complete call of a tool. Its id is numbered: `call_1`, `call_2`."""
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
    """A call with any content: arguments that are not JSON, a repeated id, `""` for no id.

    `ended=False` leaves it incomplete, as when an answer is truncated in the middle of a call.
    """
    return ScriptedCall(tool, arguments, id, chunks, ended, provider_executed, metadata)


def source(url: str, title: str | None = None) -> ScriptItem:
    """A source of the answer."""
    return PartAdded(Source(url, title))


def file(media_type: str, data: bytes, name: str | None = None) -> ScriptItem:
    """A file in the answer."""
    return PartAdded(File(media_type, name, data))


def notice(text: str) -> ScriptItem:
    """A notice for people."""
    return Notice(text)


def ping() -> ScriptItem:
    """A ping of the provider."""
    return Ping()


def usage(
    *,
    input: int = 0,
    output: int = 0,
    reasoning: int = 0,
    cache_read: int = 0,
    cache_write: int = 0,
    cost: float | None = None,
) -> ScriptItem:
    """Usage that the turn reports at its end, wherever in the turn this item is."""
    return Usage(input, output, reasoning, cache_read, cache_write, cost)


def finish(
    reason: FinishReason, *, window: int | None = None, metadata: Metadata | None = None
) -> ScriptItem:
    """End the turn with this finish reason instead of the one that follows from its content."""
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
    """Raise at this point: the given exception, or a `ProviderError` with these attributes."""

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
    """Wait for some seconds. In virtual time, everything else that can happen happens meanwhile."""

    def pause_now(request: Request) -> Awaitable[None]:
        return anyio.sleep(seconds)

    return [pause_now]


def hang() -> ScriptItem:
    """Wait until cancelled."""

    def hang_now(request: Request) -> Awaitable[None]:
        return anyio.sleep_forever()

    return [hang_now]


def cut() -> ScriptItem:
    """End the stream here without an error and without `Finished`, as a broken proxy does."""
    return Cut()


# --- Playing it ---------------------------------------------------------------------------------

PlayStep: TypeAlias = Delta | Fault | Callable[[Any], object]
ITEM_TYPES: Final = (*get_args(Delta), Usage, ScriptedCall, Cut, Fault, anyio.Event)


class ScriptPlayer:
    """Plays a script turn by turn, each as a list of steps."""

    def __init__(
        self, script: Sequence[ScriptedTurn] = (), default: ScriptedTurn | None = None
    ) -> None:
        self._script = [script] if isinstance(script, str) else list(script)
        self._default = default
        self._played = 0
        self._ids = 0
        # Prepared ahead, so that benchmarks do not measure it, up to the first turn whose ids
        # depend on a function.
        self._ready: list[list[PlayStep]] = []
        for turn in self._script:
            if callable(turn):
                break
            self._ready.append(self._prepare(turn))

    @property
    def left(self) -> int:
        """Number of turns that have not been played."""
        return max(0, len(self._script) - self._played)

    def take(self) -> int:
        """Begin the next turn, and return its number."""
        self._played += 1
        return self._played - 1

    def steps(self, number: int, request: object) -> list[PlayStep]:
        """Steps of a turn, for this request."""
        if number < len(self._ready):
            return self._ready[number]
        turn = self._script[number] if number < len(self._script) else self._default
        if turn is None:
            raise ScriptEnded(len(self._script), request)
        return self._prepare(_turn_for(turn, request))

    def _prepare(self, turn: ScriptItem) -> list[PlayStep]:
        """The steps of a turn: mostly deltas to yield."""
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
        """The deltas of a call, as a provider streams it."""
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
        priced: bool = True,
    ) -> None:
        """Create a model.

        `default` is played when the script has ended; without it, that is an error. `priced`:
        whether a limit of cost accepts the model.
        """
        self.name = name
        self.window = window
        self.priced = priced
        self.requests: list[Request] = []
        """Every request so far, including failed ones."""
        self._script = ScriptPlayer(script, default)

    @property
    def left(self) -> int:
        """Number of turns of the script that have not been played."""
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
                # So that an interrupt made by this function takes effect right here.
                await anyio.lowlevel.checkpoint()


def _turn_for(turn: ScriptedTurn, request: object) -> ScriptItem:
    if not callable(turn):
        return turn
    result = turn(request)
    if result is None:
        raise TypeError(
            "a turn that is a function returns the turn; "
            "to call a function while streaming, put it into a list: [function]"
        )
    return cast(ScriptItem, result)


def _reason(steps: Sequence[PlayStep]) -> FinishReason:
    """Finish reason that a provider would report."""
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
        raise TypeError(f"{item!r} is not an item of a script")


def _pieces(text: str, count: int) -> list[str]:
    """The text in `count` pieces of about the same length; fewer if it is short."""
    if count < 1:
        raise ValueError(f"chunks is {count}: use at least 1")
    size = max(1, -(-len(text) // count))
    return [text[at : at + size] for at in range(0, len(text), size)] or [""]


def _waiting_for(event: anyio.Event) -> Callable[[Request], Awaitable[None]]:
    def wait(request: Request) -> Awaitable[None]:
        return event.wait()

    return wait
