"""Streams: the events of one chat, and of the caller's chat list."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from msgspec import Meta

from holdfast.chat.stream import ChatEvents, Cursor
from holdfast.server.chat_list_stream import ChatListStream, ListCursor
from holdfast.server.event_codec import LIST_PAYLOADS, PAYLOADS
from holdfast.server.fanout import StreamSubject
from holdfast.server.http_request import HttpRequest
from holdfast.server.operation import ApiCall, EventsResponse, operation
from holdfast.server.shared_request_types import Id, RequestStruct

SSE_MEDIA_TYPE = "text/event-stream"


class StreamQuery(RequestStruct, frozen=True):
    """Where a stream continues."""

    cursor: (
        Annotated[str, Meta(max_length=400, description="id of the last event received")] | None
    ) = None
    """Id of the last event received; `Last-Event-ID` takes precedence."""


@operation(
    "GET",
    "/chats/{chat}/stream",
    "Watch a chat, from a cursor on (Last-Event-ID or ?cursor=); also over WebSocket",
    media=SSE_MEDIA_TYPE,
    raw=True,
    events=PAYLOADS,
)
async def stream_chat(
    call: ApiCall, request: HttpRequest, chat: Id, query: StreamQuery
) -> EventsResponse:
    text = _cursor(request, query)
    cursor = None if text is None else Cursor.parse(text)
    feed = call.server.host.feed
    open = partial(ChatEvents, feed, chat)
    return EventsResponse(StreamSubject(f"chat {chat}", open, chat), cursor, call.caller)


@operation(
    "GET",
    "/stream",
    "Watch the caller's chats: each one that is created or changes; also over WebSocket",
    media=SSE_MEDIA_TYPE,
    raw=True,
    events=LIST_PAYLOADS,
)
async def stream_chats(call: ApiCall, request: HttpRequest, query: StreamQuery) -> EventsResponse:
    text = _cursor(request, query)
    cursor = None if text is None else ListCursor.parse(text)
    open = partial(ChatListStream, call.server.host.feed, call.server.chat_list_notifier, call.user)
    return EventsResponse(StreamSubject(f"chats of {call.user!r}", open), cursor, call.caller)


def _cursor(request: HttpRequest, query: StreamQuery) -> str | None:
    """The client's cursor. A reconnecting browser sends it as a header, to the URL it began
    with."""
    return request.headers.get("Last-Event-ID") or query.cursor or None
