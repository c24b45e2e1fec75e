"""Helpers of the conformance cases: sending requests, and evaluating answers."""

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
from holdfast.testing.ports import ports
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
    "signatures",  # ... with what must be replayed beside it
    "exact_arguments",  # arguments arrive as text, and so as they were written
    "call_ids",  # a call has an id on the wire
    "unfinished_calls",  # a call may be left half written
    "provider_tools",  # the provider runs tools itself, and says what they gave
    "sources",  # an answer says where it has something from
    "files",  # an answer may have files in it
    "usage",  # it says how many tokens were used
    "cut",  # an answer that ends without its terminal event can be told from one that is complete
    "connection",  # there is one, and it can be lost: a script may have lost() in it
    "failures_inside",  # a provider may fail in the middle of a stream
]
"""What a model, or whatever plays the script, may be unable to do."""

TIMEOUT: Final = 30.0
"""Seconds that a model may take for anything in a case."""
LOOP_TURNS: Final = 20
"""Of the event loop, after which nothing that a model let go of may still be open."""


class Subject(Struct, frozen=True):
    """A model under test, and what can be seen of it from outside, as far as it can."""

    model: Model
    open: Callable[[], int] | None = None
    """How many answers whoever plays the script is giving right now."""
    sent: Callable[[], Sequence[bytes]] | None = None
    """The body of every request so far."""


ModelOrSubject: TypeAlias = Union[Model, Subject]
ModelFactory: TypeAlias = Callable[
    [Sequence[ScriptedTurn]], Union[ModelOrSubject, AbstractAsyncContextManager[ModelOrSubject]]
]
"""Gives a model that talks to something which plays this script, one turn for each request."""


def demand(met: object, problem: str) -> None:
    """`assert`, also where Python is told to leave those out."""
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
    """A plain request, built anew each time."""
    return Request(messages=(*before, user_message(prompt)), tools=(LOOK_TOOL,))


# --- Answers ------------------------------------------------------------------------------------


class StreamRecord:
    """What a stream brought: its deltas, and how it ended."""

    def __init__(self, model: str) -> None:
        self.deltas: list[Delta] = []
        self.error: Exception | None = None
        self.hung = False
        """Whether it was given up, because it neither ended nor failed."""
        self._model = model

    @property
    def finished(self) -> Finished | None:
        return next((delta for delta in self.deltas if isinstance(delta, Finished)), None)

    @property
    def content(self) -> list[Delta]:
        """Without what says nothing of the answer itself."""
        return [delta for delta in self.deltas if not isinstance(delta, (Ping, Opened, Notice))]

    @property
    def message(self) -> Message:
        """The answer, as the loop would commit it."""
        if self.error is not None:
            raise AssertionError(f"the stream failed: {describe(self.error)}") from self.error
        demand(self.finished is not None, f"no Finished came, only {self.deltas}")
        assembly = Assembly(self._model, ports())
        for delta in self.deltas:
            assembly.feed(delta)
        return assembly.message()

    @property
    def failure(self) -> Failure:
        """What the loop would make of the exception."""
        if self.error is None:
            raise AssertionError(f"the stream raised nothing, and brought {self.deltas}")
        if self.hung:
            raise AssertionError(f"{self.error}, and brought {self.deltas}")
        return classify(self.error)


async def collect(model: Model, request: Request) -> StreamRecord:
    """Read a stream to its end, whatever the end is."""
    record = StreamRecord(model.name)
    stream = model.stream(request)
    try:
        with anyio.move_on_after(TIMEOUT) as scope:
            async for delta in stream:
                demand(
                    isinstance(delta, get_args(Delta)),
                    f"the stream yielded {delta!r}, which is no Delta",
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
    """The next delta that says something."""
    try:
        with anyio.move_on_after(TIMEOUT) as scope:
            async for delta in stream:
                if not isinstance(delta, (Ping, Opened, Notice)):
                    return delta
        if scope.cancelled_caught:
            raise AssertionError(f"nothing came for {TIMEOUT:g} s")
    except AssertionError:
        raise
    except Exception as error:
        raise AssertionError(f"the stream failed: {describe(error)}") from error
    raise AssertionError("the stream ended before it said anything")


# --- What an answer says ------------------------------------------------------------------------


def described(message: Message) -> list[str]:
    """What a message says, part by part, in a form that two models can be compared by."""
    lines: list[str] = []
    last: type[Part] | None = None
    for part in message.parts:
        line = _line(part)
        if not line:
            continue
        if isinstance(part, (Text, Reasoning)) and last is type(part):
            lines[-1] += line.partition(": ")[2]
        else:
            lines.append(line)
        last = type(part)
    return lines


def _line(part: Part) -> str:
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
    """Arguments without what JSON leaves open."""
    try:
        return msgspec.json.encode(msgspec.json.decode(arguments or "{}"), order="sorted").decode()
    except (msgspec.DecodeError, UnicodeEncodeError):
        return arguments


# --- The bench ----------------------------------------------------------------------------------


class Bench:
    """What a case works with: models that play its scripts."""

    def __init__(self, make: ModelFactory, without: Collection[Feature] = ()) -> None:
        self._make = make
        self._without = without

    def can(self, feature: Feature) -> bool:
        return feature not in self._without

    @asynccontextmanager
    async def playing(self, *turns: ScriptedTurn) -> AsyncIterator[Subject]:
        """A model whose answers are these."""
        made = self._make(turns)
        if isinstance(made, AbstractAsyncContextManager):
            async with made as inner:
                yield _subject(inner)
        else:
            yield _subject(made)

    async def collect(self, turn: ScriptedTurn, request: Request | None = None) -> StreamRecord:
        async with self.playing(turn) as subject:
            return await collect(subject.model, request or ask())

    async def answer(self, turn: ScriptedTurn, request: Request | None = None) -> Message:
        """A complete answer to a request that has to be accepted."""
        return (await self.collect(turn, request)).message

    async def demand_same(self, *items: ScriptItem) -> Message:
        """Demand that an answer says what the script says."""
        meant = (await collect(ScriptedModel([list(items)]), ask())).message
        message = await self.answer(list(items))
        demand(
            described(message) == described(meant),
            f"the script says {described(meant)}, and the message says {described(message)}",
        )
        return message

    def rich(self) -> list[ScriptItem]:
        """An answer with something of everything that this model can say."""
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


def _subject(made: ModelOrSubject) -> Subject:
    return made if isinstance(made, Subject) else Subject(made)


async def demand_all_closed(subject: Subject) -> None:
    """Demand that nothing is open any more."""
    if subject.open is None:
        return
    for _ in range(LOOP_TURNS):
        if not subject.open():
            return
        await asyncio.sleep(0)
    demand(False, f"{subject.open()} of its connections are still open")
