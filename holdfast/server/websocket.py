"""Events over WebSocket: each one a text frame with `id`, `event` and `data`.

The client may send only control frames. Events are written to the connection directly, past the
response: they are encoded once for all readers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

import anyio
from aiohttp import WSCloseCode, WSMessage, WSMsgType, web

from holdfast.server.access_policy import ApiCaller
from holdfast.server.event_codec import HEARTBEAT_EVENT, StreamEndReason, WireEvent
from holdfast.server.fanout import Hub, ReaderConnection, StreamSubject

PROTOCOL: Final = "holdfast"
"""Subprotocol that a page offers next to its session key: browsers require one to be accepted."""
MAX_CLIENT_MESSAGE: Final = 4096
"""Longest message that is read before it is refused, in bytes."""
CLOSE_CODES: Final[Mapping[StreamEndReason, int]] = {
    "shutdown": WSCloseCode.GOING_AWAY,
    "slow": WSCloseCode.TRY_AGAIN_LATER,
    "failed": WSCloseCode.INTERNAL_ERROR,
    "revoked": WSCloseCode.POLICY_VIOLATION,
    "deleted": WSCloseCode.OK,
}
"""Close code for each reason."""
REFUSAL: Final = b"this stream accepts no messages: send them to the API"


def frames(events: Sequence[WireEvent]) -> bytes:
    """Events as unmasked text frames, one after the other."""
    return b"".join(map(_frame, events))


def _frame(wire: WireEvent) -> bytes:
    id = b"null" if wire.id is None else b'"%b"' % wire.id.encode()
    text = b'{"id":%b,"event":"%b","data":%b}' % (id, wire.event.encode(), wire.data)
    size = len(text)
    if size < 126:
        return b"\x81%c%b" % (size, text)
    if size < 65_536:
        return b"\x81\x7e%b%b" % (size.to_bytes(2), text)
    return b"\x81\x7f%b%b" % (size.to_bytes(8), text)


PING_FRAME: Final = b"\x89\x00"
WEBSOCKET_HEARTBEAT: Final = PING_FRAME + frames([WireEvent(None, HEARTBEAT_EVENT, b"null")])
"""Heartbeat: a ping detects dead clients; the event is for pages, which see no pings."""


def is_handshake(request: web.Request) -> bool:
    """Whether the request is a WebSocket handshake."""
    return request.headers.get("Upgrade", "").lower() == "websocket"


async def respond(
    hub: Hub, request: web.Request, subject: StreamSubject, cursor: Any, caller: ApiCaller | None
) -> web.StreamResponse:
    """Serve a stream over WebSocket until it ends."""
    # Frames shared by all readers cannot be compressed for each.
    socket = web.WebSocketResponse(
        protocols=(PROTOCOL,), compress=False, autoping=False, max_msg_size=MAX_CLIENT_MESSAGE
    )
    await socket.prepare(request)
    transport = request.transport
    if not isinstance(transport, asyncio.Transport):  # the client has disconnected
        return socket
    reader = ReaderConnection(transport, frames, WEBSOCKET_HEARTBEAT, subject, cursor, caller)
    refused: list[WSMessage] = []
    async with anyio.create_task_group() as group:
        group.start_soon(_listen, hub, socket, reader, refused)
        end = await hub.serve(reader)
        group.cancel_scope.cancel()
    # Only now: nothing may be written after the close frame.
    if end is not None:
        await socket.close(code=CLOSE_CODES[end.reason], message=end.reason.encode())
    elif refused:
        await socket.close(code=WSCloseCode.UNSUPPORTED_DATA, message=REFUSAL)
    return socket


async def _listen(
    hub: Hub, socket: web.WebSocketResponse, reader: ReaderConnection, refused: list[WSMessage]
) -> None:
    """Answer control frames until the client disconnects or sends anything else."""
    loop = asyncio.get_running_loop()
    reader.pong_at = loop.time()
    while True:
        message: WSMessage = await socket.receive()
        reader.pong_at = loop.time()
        match message.type:
            case WSMsgType.PING:
                try:
                    await socket.pong(message.data)
                except ConnectionError:  # the client closed the connection after its ping
                    break
            case WSMsgType.PONG:
                pass
            case WSMsgType.TEXT | WSMsgType.BINARY:
                refused.append(message)
                break
            case _:  # it is closed, or broken
                break
    hub.leave(reader)
