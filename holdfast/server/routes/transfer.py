"""A chat as a file, and back."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from holdfast.chat.export import Format
from holdfast.chat.listing import Shown, shown
from holdfast.kernel.errors import FormatError
from holdfast.server.given import Given, Id, Name
from holdfast.server.operation import Call, Content, operation
from holdfast.server.problem import BadBody
from holdfast.server.routes.files import received

JSONL: Final = "application/x-ndjson"
MARKDOWN: Final = "text/markdown"


class Export(Given, frozen=True):
    format: Format = "jsonl"
    """`jsonl` loses nothing, and can be imported; `markdown` is for people."""


@operation("GET", "/chats/{chat}/export", "A chat as a file", media=f"{JSONL}, {MARKDOWN}")
async def export_chat(call: Call, chat: Id, query: Export) -> Content:
    text = await (await call.server.host.chat(chat)).export(query.format)
    media, ending = (JSONL, "jsonl") if query.format == "jsonl" else (MARKDOWN, "md")
    data = text.encode(errors="replace")
    return Content(data, f"{media}; charset=utf-8", f"chat-{chat}.{ending}")


class Import(Given, frozen=True):
    agent: Name | None = None
    """Who goes on with it; None: the one that it had."""


@operation(
    "POST",
    "/chats/import",
    "A new chat from an export in JSONL",
    status=201,
    raw=True,
    takes=JSONL,
)
async def import_chat(call: Call, request: web.Request, query: Import) -> Shown:
    """It has the same messages, and belongs to the caller. What it was allowed to do is not kept.

    Calls without a result get one that says so, as in a copy. A model that cannot be had here is
    left to the agent.
    """
    data = await received(request, call.server.limits.file)
    try:
        chat = await call.server.host.restore(
            data.decode(), agent=query.agent, owner=call.user, key=call.key
        )
    except UnicodeDecodeError:
        raise BadBody("this is no text in UTF-8: send an export in JSONL") from None
    except FormatError as error:
        raise BadBody(f"this is no export of a chat: {error}") from None
    return shown(chat.first)
