"""A fake provider: plays a script in a real protocol, in memory or on loopback."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Final, cast, get_args
from urllib.parse import parse_qsl, urlsplit

import anyio
import anyio.lowlevel
from multidict import CIMultiDict

from holdfast.kernel.errors import ConfigError, ProviderError
from holdfast.kernel.model import Delta, Finished
from holdfast.providers.provider_catalog import WireProtocol
from holdfast.testing.fake.dialect_interface import (
    AnswerEncoder,
    ConnectionLost,
    FakeDialect,
    Problem,
    ReceivedRequest,
    ResponseHead,
    problem_of,
)
from holdfast.testing.fake.faults import (
    BrokenConnection,
    Dripping,
    Endless,
    FixedResponse,
    Garbled,
    OpenResponse,
    RawBytes,
    Swapped,
)
from holdfast.testing.fake.server import serve
from holdfast.testing.script import Fault, ScriptedTurn, ScriptEnded, ScriptPlayer

if TYPE_CHECKING:
    # it would import aiohttp, which fakes do not need
    from holdfast.providers.http import HttpResponse

STREAM_HEADERS: Final = {"Content-Type": "text/event-stream; charset=utf-8"}
JSON_HEADERS: Final = {"Content-Type": "application/json"}


class FakeProvider:
    """Plays a script, one turn per request, and refuses requests that the real provider refuses.

    It is an `Http`, so a model created with `http=fake` uses it in memory, with delays in virtual
    time. `async with fake.serve() as base_url` serves it on loopback, for any client.
    """

    def __init__(
        self,
        protocol: WireProtocol,
        script: Sequence[ScriptedTurn] = (),
        *,
        default: ScriptedTurn | None = None,
        check: bool = True,
    ) -> None:
        """`check=False` accepts any request."""
        if protocol not in get_args(WireProtocol):
            names = ", ".join(get_args(WireProtocol))
            raise ConfigError(f"there is no fake for {protocol!r}: use one of {names}")
        module = import_module(f"holdfast.testing.fake.{protocol}")
        dialect = module.DIALECT
        # A dialect with a memory is created for each provider.
        self._dialect = cast(FakeDialect, dialect() if callable(dialect) else dialect)
        self._script = ScriptPlayer(script, default)
        self._check = check
        self.requests: list[ReceivedRequest] = []
        """Every request so far, including refused ones."""
        self.problems: list[Problem] = []
        """The problems of the refused requests."""
        self.open = 0
        """Number of answers in progress."""

    @property
    def left(self) -> int:
        """Number of turns of the script not played yet."""
        return self._script.left

    def post(
        self, url: str, headers: Mapping[str, str], body: bytes
    ) -> AbstractAsyncContextManager[HttpResponse]:
        """Answer a request in memory, as an `Http`."""
        return self._post(url, headers, body)

    def serve(self) -> AbstractAsyncContextManager[str]:
        """Serve on loopback during the block; yields the base URL."""
        return serve(self.exchange)

    @asynccontextmanager
    async def _post(
        self, url: str, headers: Mapping[str, str], body: bytes
    ) -> AsyncIterator[HttpResponse]:
        await anyio.lowlevel.checkpoint()
        parts = urlsplit(url)
        query = dict(parse_qsl(parts.query))
        exchange = self.exchange(ReceivedRequest(parts.path, query, CIMultiDict(headers), body))
        try:
            try:
                head = await anext(exchange)
            except ConnectionLost:
                raise ProviderError("the connection was lost", kind="network") from None
            assert isinstance(head, ResponseHead)
            yield _MemoryResponse(head, exchange)
        finally:
            await exchange.aclose()

    async def exchange(self, received: ReceivedRequest) -> AsyncGenerator[ResponseHead | bytes]:
        """Answer one request: the head first, then the pieces of the body."""
        self.requests.append(received)
        self.open += 1
        try:
            problem = self._dialect.problem(received) if self._check else None
            if problem is not None:
                self.problems.append(problem)
                for piece in self._refuse(problem, {}):
                    yield piece
                return
            async for piece in self._answer(received):
                yield piece
        finally:
            self.open -= 1

    async def _answer(self, received: ReceivedRequest) -> AsyncGenerator[ResponseHead | bytes]:
        try:
            steps = self._script.steps(self._script.take(), received)
        except ScriptEnded as error:
            for piece in self._refuse(Problem(str(error), 500), {"X-Should-Retry": "false"}):
                yield piece
            return
        usage = next((step.usage for step in steps if isinstance(step, Finished)), None)
        playback = _Playback(self._dialect.encoder(received, usage))
        for step in steps:
            if isinstance(step, FixedResponse):
                yield ResponseHead(step.status, step.headers)
                yield step.body
                return
            if callable(step):
                try:
                    await _call(step, received)
                except ProviderError as error:
                    for piece in self._fail(playback, error):
                        yield piece
                    return
                continue
            async for piece in playback.take(step):
                yield piece
        async for piece in playback.finish():
            yield piece

    def _fail(self, playback: _Playback, error: ProviderError) -> list[ResponseHead | bytes]:
        if playback.opened:
            return [*playback.encoder.failure(problem_of(error))]
        headers = {}
        if error.retry_after is not None:
            headers["Retry-After"] = f"{error.retry_after:g}"
        if error.should_retry is not None:
            headers["X-Should-Retry"] = str(error.should_retry).lower()
        return self._refuse(problem_of(error), headers)

    def _refuse(self, problem: Problem, headers: Mapping[str, str]) -> list[ResponseHead | bytes]:
        return [
            ResponseHead(problem.status, {**JSON_HEADERS, **headers}),
            self._dialect.refusal(problem),
        ]


class _Playback:
    """Sends one answer, with its faults."""

    def __init__(self, speaker: AnswerEncoder) -> None:
        self.encoder = speaker
        self.opened = False
        self._garble = False
        self._swap = 0
        """Number of events to hold back."""
        self._held: list[bytes] = []
        self._drip: Dripping | None = None

    async def take(self, step: Delta | Fault) -> AsyncGenerator[ResponseHead | bytes]:
        if isinstance(step, BrokenConnection):
            raise ConnectionLost
        if not self.opened:
            self.opened = True
            yield ResponseHead(200, STREAM_HEADERS)
            async for piece in self._send(self.encoder.opening()):
                yield piece
        match step:
            case OpenResponse():
                pass
            case RawBytes(data):
                async for piece in self._send([data]):
                    yield piece
            case Garbled():
                self._garble = True
            case Swapped():
                self._swap = 2
            case Dripping():
                self._drip = step
            case Endless(delta, seconds):
                while True:
                    async for piece in self._send(self.encoder.encode_delta(delta)):
                        yield piece
                    await anyio.sleep(seconds)
            case Fault():
                raise TypeError(f"{step!r} is not a fault of a fake provider")
            case _:
                async for piece in self._send(self.encoder.encode_delta(step)):
                    yield piece

    async def finish(self) -> AsyncGenerator[ResponseHead | bytes]:
        """End the body. The headers and first events are sent even for an empty script."""
        if not self.opened:
            async for piece in self.take(OpenResponse()):
                yield piece
        for event in self._held:
            yield event

    async def _send(self, events: Iterable[bytes]) -> AsyncGenerator[bytes]:
        for event in events:
            for ready in self._ordered(self._garbled(event)):
                async for piece in self._dripped(ready):
                    yield piece

    def _garbled(self, event: bytes) -> bytes:
        start = event.find(b"data: ")
        if not self._garble or start < 0:  # a comment has no JSON to truncate
            return event
        self._garble = False
        return event[: (start + len(b"data: ") + len(event)) // 2].rstrip(b"\n") + b"\n\n"

    def _ordered(self, event: bytes) -> list[bytes]:
        if not self._swap:
            return [event]
        self._swap -= 1
        self._held.insert(0, event)
        if self._swap:
            return []
        held, self._held = self._held, []
        return held

    async def _dripped(self, event: bytes) -> AsyncGenerator[bytes]:
        drip = self._drip
        if drip is None:
            yield event
            return
        for at in range(0, len(event), drip.size):
            await anyio.sleep(drip.seconds)
            yield event[at : at + drip.size]


async def _call(step: object, received: ReceivedRequest) -> None:
    assert callable(step)
    done = step(received)
    if inspect.isawaitable(done):
        await done
    else:
        await anyio.lowlevel.checkpoint()


class _MemoryResponse:
    """A response in memory."""

    def __init__(self, head: ResponseHead, exchange: AsyncGenerator[ResponseHead | bytes]) -> None:
        self.status = head.status
        self.headers: Mapping[str, str] = CIMultiDict(head.headers)
        self._exchange = exchange

    async def chunks(self) -> AsyncGenerator[bytes]:
        try:
            async for piece in self._exchange:
                assert isinstance(piece, bytes)
                yield piece
        except ConnectionLost:
            raise ProviderError("the connection was lost", kind="stream_cut") from None
