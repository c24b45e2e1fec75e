"""What goes over the wire: recorded from a fake, and played back in any pieces."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from multidict import CIMultiDict

from holdfast.providers.http import Http, HttpResponse
from holdfast.providers.provider_catalog import WireProtocol
from holdfast.testing.conformance.bench import ask, collect
from holdfast.testing.fake.provider import STREAM_HEADERS, FakeProvider
from holdfast.testing.script import ScriptedTurn
from tests.providers.makers import model_of


class Tap:
    """Passes everything on, and keeps the body of the last answer, piece by piece."""

    def __init__(self, http: Http) -> None:
        self.pieces: list[bytes] = []
        self._http = http

    @asynccontextmanager
    async def post(
        self, url: str, headers: Mapping[str, str], body: bytes
    ) -> AsyncIterator[HttpResponse]:
        self.pieces = []
        async with self._http.post(url, headers, body) as reply:
            yield _Tapped(reply, self.pieces)


class _Tapped:
    def __init__(self, reply: HttpResponse, pieces: list[bytes]) -> None:
        self.status, self.headers = reply.status, reply.headers
        self._reply, self._pieces = reply, pieces

    async def chunks(self) -> AsyncIterator[bytes]:
        async for piece in self._reply.chunks():
            self._pieces.append(piece)
            yield piece


class Playback:
    """Answers every request with these pieces."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = pieces

    @asynccontextmanager
    async def post(
        self, url: str, headers: Mapping[str, str], body: bytes
    ) -> AsyncIterator[HttpResponse]:
        yield _Played(self._pieces)


class _Played:
    status = 200
    headers: Mapping[str, str] = CIMultiDict(STREAM_HEADERS)

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = pieces

    async def chunks(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece


async def recorded(protocol: WireProtocol, turn: ScriptedTurn) -> list[bytes]:
    """What a provider sends when it says this, event by event."""
    tap = Tap(FakeProvider(protocol, [turn]))
    await collect(model_of(protocol, tap), ask())
    return tap.pieces
