"""Server-sent events: their encoding, and the response that hands its connection to the hub.

Events are written to the connection directly, past the response: they are encoded once for all
readers, including the framing of the HTTP chunk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from aiohttp import hdrs, web

from holdfast.server.access_policy import ApiCaller
from holdfast.server.event_codec import WireEvent
from holdfast.server.fanout import EventEncoder, Hub, ReaderConnection, StreamSubject

SSE_HEADERS: Final = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache, no-transform",
    "X-Accel-Buffering": "no",
    "X-Content-Type-Options": "nosniff",
}
SSE_HEARTBEAT: Final = b":\n\n"
"""Heartbeat: a comment, so that no proxy considers the connection dead."""


def plain(events: Sequence[WireEvent]) -> bytes:
    """Events for a body that is not chunked."""
    return b"".join(map(_written, events))


def chunked(events: Sequence[WireEvent]) -> bytes:
    """Events as one HTTP chunk."""
    return chunk(plain(events))


def chunk(data: bytes) -> bytes:
    """Data as one HTTP chunk."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def _written(wire: WireEvent) -> bytes:
    if wire.id is None:
        return b"event: %b\ndata: %b\n\n" % (wire.event.encode(), wire.data)
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (
        wire.id.encode(),
        wire.event.encode(),
        wire.data,
    )


async def respond(
    hub: Hub, request: web.Request, subject: StreamSubject, cursor: Any, caller: ApiCaller | None
) -> web.StreamResponse:
    """Serve a stream as server-sent events until it ends."""
    response = web.StreamResponse(headers=SSE_HEADERS)
    response.force_close()
    await response.prepare(request)
    transport = request.transport
    if isinstance(transport, asyncio.Transport):  # None: the client has disconnected
        in_chunks = response.headers.get(hdrs.TRANSFER_ENCODING) == "chunked"
        form: EventEncoder = chunked if in_chunks else plain
        beat = chunk(SSE_HEARTBEAT) if in_chunks else SSE_HEARTBEAT
        await hub.serve(ReaderConnection(transport, form, beat, subject, cursor, caller))
    with suppress(ConnectionError):
        await response.write_eof()
    return response
