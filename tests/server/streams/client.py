"""A client of the streams that trusts nothing: SSE and WebSocket, read event by event."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import msgspec

import holdfast.server.routes.streams  # noqa: F401 - so that there are these
from holdfast.chat.stream import ChatChanged
from holdfast.server.event_codec import StreamEnd, WireEvent, event_of
from holdfast.server.wire_format import API_PREFIX
from tests.chat.watcher import Watcher, in_time
from tests.server.api import USER, Api


@dataclass
class Connection:
    """One stream, as it arrives."""

    response: aiohttp.ClientResponse
    beats: int = 0
    began: str | None = None
    """The cursor of somebody new who was told nothing yet."""
    writes: list[bytes] = field(default_factory=list)
    """What arrived together."""

    async def events(self) -> AsyncIterator[WireEvent]:
        rest = b""
        async for data, _ in self.response.content.iter_chunks():
            self.writes.append(data)
            *whole, rest = (rest + data).split(b"\n\n")
            for block in whole:
                if block == b":":
                    self.beats += 1
                    continue
                wire = _wire(block)
                if wire.event == "beat":
                    assert wire.data == b"null"
                    self.began = wire.id
                else:
                    yield wire
        assert rest == b"", "half an event"

    async def take(self, count: int) -> list[WireEvent]:
        taken: list[WireEvent] = []
        with in_time(f"fewer than {count} events"):
            async for wire in self.events():
                taken.append(wire)
                if len(taken) == count:
                    break
        return taken


def wires_of(data: bytes) -> list[WireEvent]:
    """The events that were written together."""
    return [_wire(block) for block in data.split(b"\n\n") if block not in (b"", b":")]


def _wire(block: bytes) -> WireEvent:
    lines = dict(line.split(b": ", 1) for line in block.split(b"\n"))
    id = lines.get(b"id")
    return WireEvent(None if id is None else id.decode(), lines[b"event"].decode(), lines[b"data"])


def path_of(chat_id: str | None) -> str:
    return "/stream" if chat_id is None else f"/chats/{chat_id}/stream"


@asynccontextmanager
async def connected(
    api: Api,
    chat_id: str | None,
    cursor: str | None = None,
    *,
    in_url: bool = False,
    headers: Mapping[str, str] = {},
) -> AsyncIterator[Connection]:
    """Over SSE; `in_url`: with the cursor there, not in the header."""
    headers = {USER: api.user, **headers}
    params: dict[str, str] = {}
    if cursor is not None:
        (params if in_url else headers)["cursor" if in_url else "Last-Event-ID"] = cursor
    async with api.session.get(
        api.url + API_PREFIX + path_of(chat_id), headers=headers, params=params
    ) as response:
        assert response.status == 200, await response.read()
        yield Connection(response)


@asynccontextmanager
async def socket(
    api: Api, chat_id: str | None, cursor: str | None = None, **more: Any
) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    query = "" if cursor is None else f"?cursor={cursor}"
    async with api.session.ws_connect(
        api.url + API_PREFIX + path_of(chat_id) + query, headers={USER: api.user}, **more
    ) as opened:
        yield opened


@asynccontextmanager
async def crowd(api: Api) -> AsyncIterator[Api]:
    """The same API for any number of connections at once."""
    # Whoever connects takes real time, in which virtual time may go by.
    patient = aiohttp.ClientTimeout(total=None)
    many = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=many, timeout=patient) as session:
        yield Api(api.url, session, api.server, api.user)


class Frame(msgspec.Struct, forbid_unknown_fields=True):
    id: str | None
    event: str
    data: msgspec.Raw


async def frames(opened: aiohttp.ClientWebSocketResponse) -> AsyncIterator[WireEvent]:
    async for message in opened:
        assert message.type is aiohttp.WSMsgType.TEXT
        frame = msgspec.json.decode(message.data, type=Frame)
        yield WireEvent(frame.id, frame.event, bytes(frame.data))


class Watching(Watcher):
    """A watcher at the far end of a wire."""

    end: StreamEnd | None = None
    connections: int = 0

    @property
    def last(self) -> str | None:
        return None if self.cursor is None else str(self.cursor)

    async def follow(
        self, api: Api, chat_id: str, events: int | None = None, *, answers: int = 0
    ) -> None:
        """Take so many events from where it left off, or all until the chat is idle."""
        self.connections += 1
        async with connected(api, chat_id, self.last) as connection:
            await self.see_all(connection.events(), events, answers=answers)

    async def see_all(
        self, wires: AsyncIterator[WireEvent], events: int | None = None, *, answers: int = 0
    ) -> None:
        """`answers`: not before it has seen so many."""
        with in_time(f"neither idle nor {events} events, the last of {self.events[-2:]}"):
            await self._see_all(wires, events, answers)

    async def _see_all(
        self, wires: AsyncIterator[WireEvent], events: int | None, answers: int
    ) -> None:
        first = True
        async for wire in wires:
            event = event_of(wire)
            assert event is not None
            if isinstance(event, StreamEnd):
                self.end = event
                return
            assert not first or isinstance(event, ChatChanged), "the chat does not come first"
            first = False
            self.see(event)
            events = None if events is None else events - 1
            if events == 0 or (self.done and len(self.finished) >= answers):
                return
