"""Helpers of the conformance cases: they send requests and evaluate answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final, Literal, TypeAlias, Union, get_args

import anyio
import msgspec
from msgspec import Struct

from holdfast.kernel.assemble import Assembly
from holdfast.kernel.errors import Failure, classify, describe
from holdfast.kernel.messages import (
    File,
    Message,
    Part,
    Reasoning,
    Source,
    Text,
    ToolCall,
    ToolResult,
    user_message,
)
from holdfast.kernel.model import (
    Delta,
    Finished,
    Model,
    Notice,
    Opened,
    Ping,
    Request,
    ToolSpec,
    close,
)
from holdfast.testing.deterministic_ports import ports
from holdfast.testing.script import (
    ScriptedModel,
    ScriptedTurn,
    ScriptItem,
    call_raw,
    say,
    think,
    usage,
)

Feature = Literal[
    "reasoning",  # it passes on what the model thought
    "signatures",  # ... with the signature that must be replayed with it
    "exact_arguments",  # arguments arrive as text, and so as they were written
    "call_ids",  # a call has an id on the wire
    "unfinished_calls",  # a call may be left half written
    "provider_tools",  # the provider runs tools itself, and reports their results
    "sources",  # an answer lists its sources
    "files",  # an answer may have files in it
    "usage",  # it reports how many tokens were used
    "cut",  # an answer that ends without its terminal event can be told from one that is complete
    "connection",  # there is one, and it can be lost: a script may have lost() in it
    "failures_inside",  # a provider may fail in the middle of a stream
]
"""Features that a model, or the server that plays the script, may lack."""

TIMEOUT: Final = 30.0
"""Maximum seconds for any step of a case."""
LOOP_TURNS: Final = 20
"""Iterations of the event loop after which every closed stream must have released its
connection."""


class Subject(Struct, frozen=True):
    """A model under test, with functions that observe it from outside, if there are any."""

    model: Model
    open: Callable[[], int] | None = None
    """Number of answers in progress at the server that plays the script."""
    sent: Callable[[], Sequence[bytes]] | None = None
    """Bodies of the requests so far."""


ModelOrSubject: TypeAlias = Union[Model, Subject]
ModelFactory: TypeAlias = Callable[
    [Sequence[ScriptedTurn]], Union[ModelOrSubject, AbstractAsyncContextManager[ModelOrSubject]]
]
"""Creates a model that talks to something which plays this script, one turn per request."""


def demand(met: object, problem: str) -> None:
    """Raise an `AssertionError` unless a condition holds.

    Unlike `assert`, it also works under `python -O`.
    """
    if not met:
        raise AssertionError(problem)


# --- Requests -----------------------------------------------------------------------------------

LOOK_TOOL: Final = ToolSpec(
    "look",
    "Look at something.",
    {
        "type": "object",
        "properties": {"what": {"type": "string"}},
        "required": ["what"],
        "additionalProperties": False,
    },
)


def ask(prompt: str = "What is there?", *before: Message) -> Request:
    """A plain request, created anew each time."""
    return Request(messages=(*before, user_message(prompt)), tools=(LOOK_TOOL,))


# --- Answers ------------------------------------------------------------------------------------


class StreamRecord:
    """The deltas of a stream, and how it ended."""

    def __init__(self, model: str) -> None:
        self.deltas: list[Delta] = []
        self.error: Exception | None = None
        self.hung = False
        """Whether the stream timed out."""
        self._model = model

    @property
    def finished(self) -> Finished | None:
        return next((delta for delta in self.deltas if isinstance(delta, Finished)), None)

    @property
    def content(self) -> list[Delta]:
        """Deltas with content: without pings and notices."""
        return [delta for delta in self.deltas if not isinstance(delta, (Ping, Opened, Notice))]

    @property
    def message(self) -> Message:
        """The answer as the loop would commit it."""
        if self.error is not None:
            raise AssertionError(f"the stream failed: {describe(self.error)}") from self.error
        demand(self.finished is not None, f"no Finished came, only {self.deltas}")
        assembly = Assembly(self._model, ports())
        for delta in self.deltas:
            assembly.feed(delta)
        return assembly.message()

    @property
    def failure(self) -> Failure:
        """The failure as the loop would classify it."""
        if self.error is None:
            raise AssertionError(f"the stream raised nothing, and yielded {self.deltas}")
        if self.hung:
            raise AssertionError(f"{self.error}, and yielded {self.deltas}")
        return classify(self.error)


async def collect(model: Model, request: Request) -> StreamRecord:
    """Read a stream to its end, and record its deltas or its error."""
    record = StreamRecord(model.name)
    stream = model.stream(request)
    try:
        with anyio.move_on_after(TIMEOUT) as scope:
            async for delta in stream:
                demand(
                    isinstance(delta, get_args(Delta)),
                    f"the stream yielded {delta!r}, which is not a Delta",
                )
                record.deltas.append(delta)
        if scope.cancelled_caught:
            record.hung = True
            record.error = TimeoutError(f"it did not end within {TIMEOUT:g} s")
    except AssertionError:
        raise
    except Exception as error:
        record.error = error
    finally:
        await close(stream)
    return record


async def until_content(stream: AsyncIterator[Delta]) -> Delta:
    """The next delta with content."""
    try:
        with anyio.move_on_after(TIMEOUT) as scope:
            async for delta in stream:
                if not isinstance(delta, (Ping, Opened, Notice)):
                    return delta
        if scope.cancelled_caught:
            raise AssertionError(f"no content came within {TIMEOUT:g} s")
    except AssertionError:
        raise
    except Exception as error:
        raise AssertionError(f"the stream failed: {describe(error)}") from error
    raise AssertionError("the stream ended without content")


# --- Comparing answers --------------------------------------------------------------------------


def described(message: Message) -> list[str]:
    """The parts of a message as lines, in a form that is comparable between models."""
    lines: list[str] = []
    last: type[Part] | None = None
    for part in message.parts:
        line = _described_part(part)
        if not line:
            continue
        if isinstance(part, (Text, Reasoning)) and last is type(part):
            lines[-1] += line.partition(": ")[2]
        else:
            lines.append(line)
        last = type(part)
    return lines


def _described_part(part: Part) -> str:
    match part:
        case Text(text):
            return f"text: {text}" if text else ""
        case Reasoning(text):
            return f"reasoning: {text}" if text else ""
        case ToolCall(tool=tool, arguments=arguments, provider_executed=elsewhere):
            return f"{'provider ' * elsewhere}call: {tool} {_canonical(arguments)}"
        case ToolResult(tool=tool):
            return f"result: {tool} {part.text}"
        case File(media_type=media_type, data=data):
            return f"file: {media_type} {data!r}"
        case Source(url=url):
            return f"source: {url}"


def _canonical(arguments: str) -> str:
    """Arguments in a canonical form of JSON."""
    try:
        return msgspec.json.encode(msgspec.json.decode(arguments or "{}"), order="sorted").decode()
    except (msgspec.DecodeError, UnicodeEncodeError):
        return arguments


# --- The bench ----------------------------------------------------------------------------------


class Bench:
    """Creates models that play the scripts of a case."""

    def __init__(self, make: ModelFactory, without: Collection[Feature] = ()) -> None:
        self._make = make
        self._without = without

    def can(self, feature: Feature) -> bool:
        """Whether the model has a feature."""
        return feature not in self._without

    @asynccontextmanager
    async def playing(self, *turns: ScriptedTurn) -> AsyncIterator[Subject]:
        """A model that plays these turns."""
        model = self._make(turns)
        if isinstance(model, AbstractAsyncContextManager):
            async with model as inner:
                yield _subject(inner)
        else:
            yield _subject(model)

    async def collect(self, turn: ScriptedTurn, request: Request | None = None) -> StreamRecord:
        """Read the stream of one answer."""
        async with self.playing(turn) as subject:
            return await collect(subject.model, request or ask())

    async def answer(self, turn: ScriptedTurn, request: Request | None = None) -> Message:
        """The complete answer to a request, which must be accepted."""
        return (await self.collect(turn, request)).message

    async def demand_same(self, *items: ScriptItem) -> Message:
        """Demand that the answer equals what a scripted model answers."""
        expected = (await collect(ScriptedModel([list(items)]), ask())).message
        message = await self.answer(list(items))
        demand(
            described(message) == described(expected),
            f"the script has {described(expected)}, and the message has {described(message)}",
        )
        return message

    def rich(self) -> list[ScriptItem]:
        """An answer with every kind of content that this model supports."""
        items: list[ScriptItem] = []
        if self.can("reasoning"):
            signature = "c2lnbmVk" if self.can("signatures") else None
            items.append(think("First I look, then I speak.", signature=signature, chunks=3))
        items.append(say("Grüße aus 東京 👋🏽, gleich mehr.", chunks=4))
        items.append(call_raw("look", '{"what": "the door"}', id="call_a", chunks=3))
        items.append(call_raw("look", '{"what": "the garden"}', id="call_b"))
        if self.can("usage"):
            items.append(usage(input=120, output=30))
        return items


def _subject(model: ModelOrSubject) -> Subject:
    return model if isinstance(model, Subject) else Subject(model)


async def demand_all_closed(subject: Subject) -> None:
    """Demand that no connection is open."""
    if subject.open is None:
        return
    for _ in range(LOOP_TURNS):
        if not subject.open():
            return
        await asyncio.sleep(0)
    demand(False, f"{subject.open()} of its connections are still open")
