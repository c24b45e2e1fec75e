"""What happens, as it happens: a chat, and all chats of the caller."""

from __future__ import annotations

from functools import partial
from typing import Any

from aiohttp import web

from holdfast.chat.stream import ChatStream, Cursor
from holdfast.server import sse, websocket
from holdfast.server.fanout import Subject
from holdfast.server.operation import Call, operation
from holdfast.server.roster import Moment, Roster

SSE = "text/event-stream"


@operation(
    "GET",
    "/chats/{chat}/stream",
    "Watch a chat, from a cursor on (Last-Event-ID, or ?cursor=). Also over WebSocket.",
    media=SSE,
    raw=True,
)
async def stream_chat(call: Call, request: web.Request, chat: str) -> web.StreamResponse:
    text = _cursor(request)
    cursor = None if text is None else Cursor.parse(text)
    feed = call.server.host.feed
    open = partial(ChatStream, feed, chat, follow=True)
    return await _respond(call, request, Subject(f"chat {chat}", open, chat), cursor)


@operation(
    "GET",
    "/stream",
    "Watch all chats of the caller: each that is new or changes. Also over WebSocket.",
    media=SSE,
    raw=True,
)
async def stream_chats(call: Call, request: web.Request) -> web.StreamResponse:
    text = _cursor(request)
    cursor = None if text is None else Moment.parse(text)
    open = partial(Roster, call.server.host.feed, call.server.rosters, call.user)
    return await _respond(call, request, Subject(f"chats of {call.user!r}", open), cursor)


def _cursor(request: web.Request) -> str | None:
    """What the client saw last. A browser that comes back says it in the header, and asks for the
    URL that it began with."""
    return request.headers.get("Last-Event-ID") or request.query.get("cursor") or None


async def _respond(
    call: Call, request: web.Request, subject: Subject, cursor: Any
) -> web.StreamResponse:
    respond = websocket.respond if websocket.is_asked_for(request) else sse.respond
    return await respond(call.server.hub, request, subject, cursor, call.caller)
