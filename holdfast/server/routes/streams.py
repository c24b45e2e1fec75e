"""Streams: the events of one chat, and of the caller's chat list."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from aiohttp import web
from msgspec import Meta

from holdfast.chat.stream import ChatStream, Cursor
from holdfast.server import sse, websocket
from holdfast.server.chat_list_stream import Moment, Roster
from holdfast.server.events import LIST_PAYLOADS, PAYLOADS
from holdfast.server.fanout import Subject
from holdfast.server.operation import Call, operation
from holdfast.server.request_types import Given, Id

SSE = "text/event-stream"


class Resume(Given, frozen=True):
    """Where a stream continues."""

    cursor: (
        Annotated[str, Meta(max_length=400, description="id of the last event received")] | None
    ) = None
    """`Last-Event-ID` takes precedence."""


@operation(
    "GET",
    "/chats/{chat}/stream",
    "Watch a chat, from a cursor on (Last-Event-ID or ?cursor=); also over WebSocket",
    media=SSE,
    raw=True,
    events=PAYLOADS,
)
async def stream_chat(
    call: Call, request: web.Request, chat: Id, query: Resume
) -> web.StreamResponse:
    text = _cursor(request, query)
    cursor = None if text is None else Cursor.parse(text)
    feed = call.server.host.feed
    open = partial(ChatStream, feed, chat, follow=True)
    return await _respond(call, request, Subject(f"chat {chat}", open, chat), cursor)


@operation(
    "GET",
    "/stream",
    "Watch the caller's chats: each one that is created or changes; also over WebSocket",
    media=SSE,
    raw=True,
    events=LIST_PAYLOADS,
)
async def stream_chats(call: Call, request: web.Request, query: Resume) -> web.StreamResponse:
    text = _cursor(request, query)
    cursor = None if text is None else Moment.parse(text)
    open = partial(Roster, call.server.host.feed, call.server.rosters, call.user)
    return await _respond(call, request, Subject(f"chats of {call.user!r}", open), cursor)


def _cursor(request: web.Request, query: Resume) -> str | None:
    """The client's cursor. A reconnecting browser sends it as a header, to the URL it began
    with."""
    return request.headers.get("Last-Event-ID") or query.cursor or None


async def _respond(
    call: Call, request: web.Request, subject: Subject, cursor: Any
) -> web.StreamResponse:
    respond = websocket.respond if websocket.is_asked_for(request) else sse.respond
    with call.server.hub.admitted(call.user):
        return await respond(call.server.hub, request, subject, cursor, call.caller)
