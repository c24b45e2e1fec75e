"""Streams over ASGI: the responses that the hub writes to, as SSE and over WebSocket.

The hub writes to all its readers together and never waits. Here each reader has a task that hands
to the web server what was written, and waits while the connection takes no more: what waits then
counts as unsent, by which the hub notices a slow reader.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final

import anyio
from msgspec import Struct

from holdfast.server.access_policy import ApiCaller
from holdfast.server.asgi.asgi_request import AsgiMessage, AsgiRequest, Receive, Send
from holdfast.server.asgi.response_sender import encoded_headers
from holdfast.server.event_codec import HEARTBEAT_EVENT, StreamEnd, WireEvent
from holdfast.server.fanout import EventEncoder, Hub, ReaderConnection
from holdfast.server.identity.origin_check import SECURITY_HEADERS
from holdfast.server.operation import EventsResponse
from holdfast.server.sse import SSE_HEADERS, SSE_HEARTBEAT, plain
from holdfast.server.websocket import CLOSE_CODES, PROTOCOL, REFUSAL

UNSUPPORTED_DATA: Final = 1003
"""Close code of a WebSocket whose client sent a message."""


def text_lines(events: Sequence[WireEvent]) -> bytes:
    """Events as the texts of WebSocket messages, one a line."""
    return b"".join(map(_text_line, events))


def _text_line(wire: WireEvent) -> bytes:
    id = b"null" if wire.id is None else b'"%b"' % wire.id.encode()
    return b'{"id":%b,"event":"%b","data":%b}\n' % (id, wire.event.encode(), wire.data)


LINE_HEARTBEAT: Final = text_lines([WireEvent(None, HEARTBEAT_EVENT, b"null")])


class AsgiWriter:
    """The connection of one reader; implements `ByteWriter`."""

    def __init__(self, send: Callable[[bytes], Awaitable[None]]) -> None:
        self._send = send
        self._pending: list[bytes] = []
        self._size = 0
        self._closing = False
        self._changed = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    def write(self, data: bytes) -> None:
        """Send data soon."""
        if not self._closing:
            self._pending.append(data)
            self._size += len(data)
            self._idle.clear()
            self._changed.set()

    def get_write_buffer_size(self) -> int:
        """Bytes that the web server has not accepted yet."""
        return self._size

    def is_closing(self) -> bool:
        """Whether the connection is closed, or about to be."""
        return self._closing

    def abort(self) -> None:
        """Send nothing more."""
        self._closing = True
        self._idle.set()

    async def flush(self) -> None:
        """Wait until everything is sent, or the connection closed."""
        await self._idle.wait()

    async def run(self) -> None:
        """Send what is written, until cancelled or the client has disconnected."""
        try:
            while True:
                await self._changed.wait()
                self._changed.clear()
                pending, self._pending = self._pending, []
                await self._send(pending[0] if len(pending) == 1 else b"".join(pending))
                self._size -= sum(map(len, pending))
                if not self._size:
                    self._idle.set()
        except OSError:  # how ASGI says that the client has disconnected
            self.abort()


class StreamOutcome(Struct):
    """How a stream ended: by an event, or by what the client did."""

    end: StreamEnd | None = None
    received: AsgiMessage | None = None
    """AsgiMessage of the client that ended the stream."""


async def send_sse(
    hub: Hub, response: EventsResponse, caller: ApiCaller | None, receive: Receive, send: Send
) -> None:
    """Send a stream as server-sent events until it ends."""
    headers = encoded_headers({**SECURITY_HEADERS, **SSE_HEADERS})
    await send({"type": "http.response.start", "status": 200, "headers": headers})

    async def send_piece(data: bytes) -> None:
        await send({"type": "http.response.body", "body": data, "more_body": True})

    reader = _reader(response, caller, AsgiWriter(send_piece), plain, SSE_HEARTBEAT)

    async def finish(outcome: StreamOutcome) -> None:
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    await _stream_to(hub, reader, _until_left(receive), finish)


async def send_over_websocket(
    hub: Hub,
    response: EventsResponse,
    caller: ApiCaller | None,
    request: AsgiRequest,
    receive: Receive,
    send: Send,
) -> None:
    """Send a stream over WebSocket until it ends."""
    offered = request.scope.get("subprotocols", ())
    protocol = PROTOCOL if PROTOCOL in offered else None
    await send({"type": "websocket.accept", "subprotocol": protocol})

    async def send_texts(data: bytes) -> None:
        for line in data.splitlines():
            await send({"type": "websocket.send", "text": line.decode()})

    reader = _reader(response, caller, AsgiWriter(send_texts), text_lines, LINE_HEARTBEAT)

    async def finish(outcome: StreamOutcome) -> None:
        if outcome.end is not None:
            code, reason = CLOSE_CODES[outcome.end.reason], outcome.end.reason
            await _close(send, int(code), reason)
        elif outcome.received is not None and outcome.received["type"] == "websocket.receive":
            await _close(send, UNSUPPORTED_DATA, REFUSAL.decode())

    await _stream_to(hub, reader, receive, finish)


async def _close(send: Send, code: int, reason: str) -> None:
    with suppress(OSError):  # the client has disconnected
        await send({"type": "websocket.close", "code": code, "reason": reason})


def _until_left(receive: Receive) -> Receive:
    """Receive until the client disconnects: the rest of a body means nothing here."""

    async def disconnect() -> AsgiMessage:
        while (message := await receive())["type"] != "http.disconnect":
            pass
        return message

    return disconnect


def _reader(
    response: EventsResponse,
    caller: ApiCaller | None,
    writer: AsgiWriter,
    encode: EventEncoder,
    heartbeat: bytes,
) -> ReaderConnection:
    return ReaderConnection(writer, encode, heartbeat, response.subject, response.cursor, caller)


async def _stream_to(
    hub: Hub,
    reader: ReaderConnection,
    receive: Receive,
    finish: Callable[[StreamOutcome], Awaitable[None]],
) -> None:
    """Serve a reader until its stream ends, or the client sends a message or disconnects.

    `finish` ends the response. A client that reads nothing does not keep it, or its task, open.
    """
    writer, outcome = reader.transport, StreamOutcome()
    assert isinstance(writer, AsgiWriter)

    async def listen() -> None:
        outcome.received = await receive()
        if outcome.received["type"] != "websocket.receive":
            writer.abort()
        hub.leave(reader)

    async with anyio.create_task_group() as group:
        group.start_soon(writer.run)
        group.start_soon(listen)
        outcome.end = await hub.serve(reader)
        with anyio.move_on_after(hub.linger):
            await writer.flush()
            await finish(outcome)
        group.cancel_scope.cancel()
