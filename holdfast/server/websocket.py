"""The same events over WebSocket: each one a text frame with `id`, `event` and `data`.

Nothing is taken from the client but the frames of the protocol itself. What is said is written to
the connection itself, past the response: it was encoded for all readers at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

import anyio
from aiohttp import WSCloseCode, WSMessage, WSMsgType, web

from holdfast.server.events import BEAT as NOTHING
from holdfast.server.events import Reason, Wire
from holdfast.server.fanout import Hub, Reader, Subject
from holdfast.server.policy import Caller

LONGEST: Final = 4096
"""Bytes of a message that is read in order to be refused."""
CODES: Final[Mapping[Reason, int]] = {
    "shutdown": WSCloseCode.GOING_AWAY,
    "slow": WSCloseCode.TRY_AGAIN_LATER,
    "failed": WSCloseCode.INTERNAL_ERROR,
    "revoked": WSCloseCode.POLICY_VIOLATION,
    "deleted": WSCloseCode.OK,
}
REFUSAL: Final = b"this stream takes no messages: send them to the API"


def frames(events: Sequence[Wire]) -> bytes:
    """Events as unmasked text frames, one after the other."""
    return b"".join(map(_frame, events))


def _frame(wire: Wire) -> bytes:
    id = b"null" if wire.id is None else b'"%b"' % wire.id.encode()
    text = b'{"id":%b,"event":"%b","data":%b}' % (id, wire.event.encode(), wire.data)
    size = len(text)
    if size < 126:
        return b"\x81%c%b" % (size, text)
    if size < 65_536:
        return b"\x81\x7e%b%b" % (size.to_bytes(2), text)
    return b"\x81\x7f%b%b" % (size.to_bytes(8), text)


PING: Final = b"\x89\x00"
BEAT: Final = PING + frames([Wire(None, NOTHING, b"null")])
"""The ping shows who is still there. Pages are not told of pings: for them there is an event."""


def is_asked_for(request: web.Request) -> bool:
    return request.headers.get("Upgrade", "").lower() == "websocket"


async def respond(
    hub: Hub, request: web.Request, subject: Subject, cursor: Any, caller: Caller | None
) -> web.StreamResponse:
    # Frames that are the same for everybody cannot be compressed for each.
    socket = web.WebSocketResponse(compress=False, autoping=False, max_msg_size=LONGEST)
    await socket.prepare(request)
    transport = request.transport
    if not isinstance(transport, asyncio.Transport):  # it has gone already
        return socket
    reader = Reader(transport, frames, BEAT, subject, cursor, caller)
    refused: list[WSMessage] = []
    async with anyio.create_task_group() as group:
        group.start_soon(_listen, hub, socket, reader, refused)
        end = await hub.serve(reader)
        group.cancel_scope.cancel()
    # Only now: nothing may be written behind the frame that closes.
    if end is not None:
        await socket.close(code=CODES[end.reason], message=end.reason.encode())
    elif refused:
        await socket.close(code=WSCloseCode.UNSUPPORTED_DATA, message=REFUSAL)
    return socket


async def _listen(
    hub: Hub, socket: web.WebSocketResponse, reader: Reader, refused: list[WSMessage]
) -> None:
    """Answer the frames of the protocol, until the client leaves or says something else."""
    loop = asyncio.get_running_loop()
    reader.heard = loop.time()
    while True:
        message: WSMessage = await socket.receive()
        reader.heard = loop.time()
        match message.type:
            case WSMsgType.PING:
                await socket.pong(message.data)
            case WSMsgType.PONG:
                pass
            case WSMsgType.TEXT | WSMsgType.BINARY:
                refused.append(message)
                break
            case _:  # it is closed, or broken
                break
    hub.leave(reader)
