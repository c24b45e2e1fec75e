"""What happens, as it happens: a chat, and all chats of the caller."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from aiohttp import web
from msgspec import Meta

from holdfast.chat.stream import ChatStream, Cursor
from holdfast.server import sse, websocket
from holdfast.server.events import LIST_PAYLOADS, PAYLOADS
from holdfast.server.fanout import Subject
from holdfast.server.given import Given, Id
from holdfast.server.operation import Call, operation
from holdfast.server.roster import Moment, Roster

SSE = "text/event-stream"


class Resume(Given, frozen=True):
    cursor: (
        Annotated[str, Meta(max_length=400, description="the id of the last event that was seen")]
        | None
    ) = None
    """`Last-Event-ID` goes before it."""


@operation(
    "GET",
    "/chats/{chat}/stream",
    "Watch a chat, from a cursor on (Last-Event-ID, or ?cursor=). Also over WebSocket.",
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
    "Watch all chats of the caller: each that is new or changes. Also over WebSocket.",
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
    """What the client saw last. A browser that comes back says it in the header, and asks for the
    URL that it began with."""
    return request.headers.get("Last-Event-ID") or query.cursor or None


async def _respond(
    call: Call, request: web.Request, subject: Subject, cursor: Any
) -> web.StreamResponse:
    respond = websocket.respond if websocket.is_asked_for(request) else sse.respond
    with call.server.hub.admitted(call.user):
        return await respond(call.server.hub, request, subject, cursor, call.caller)
