"""A chat as a file, and back."""

from __future__ import annotations

from contextlib import aclosing
from functools import partial
from hashlib import sha256
from typing import Final

import msgspec
from aiohttp import web
from msgspec import Struct

from holdfast.chat.export import Exported, Format, parse
from holdfast.chat.listing import Shown, shown
from holdfast.kernel.errors import FormatError
from holdfast.kernel.messages import prepare_to_decode
from holdfast.server.given import Given, Id, Labels, Name, Title
from holdfast.server.once import key_for
from holdfast.server.operation import Call, Content, headers_of, operation
from holdfast.server.problem import BadBody
from holdfast.server.routes.files import received

JSONL: Final = "application/x-ndjson"
MARKDOWN: Final = "text/markdown"


class Export(Given, frozen=True):
    format: Format = "jsonl"
    """`jsonl` loses nothing, and can be imported; `markdown` is for people."""
    files: bool = True
    """With the bytes of files that the chat refers to, in JSONL."""


@operation(
    "GET", "/chats/{chat}/export", "A chat as a file", media=f"{JSONL}, {MARKDOWN}", raw=True
)
async def export_chat(
    call: Call, request: web.Request, chat: Id, query: Export
) -> Content | web.StreamResponse:
    """The owner's has all there is. That of others who may read the chat is without what edits took
    out, and numbered anew."""
    held = await call.server.host.chat(chat)
    live = held.owner != call.user
    if query.format == "markdown":
        text = await (held.export_live() if live else held.export("markdown"))
        data = text.encode(errors="replace")
        return Content(data, f"{MARKDOWN}; charset=utf-8", f"chat-{chat}.md")
    response = web.StreamResponse(
        headers=headers_of(f"{JSONL}; charset=utf-8", f"chat-{chat}.jsonl")
    )
    async with aclosing(held.export_lines(files=query.files, live=live)) as lines:
        first = await anext(lines)  # what is refused is refused before the answer begins
        await response.prepare(request)
        if request.method == "HEAD":
            return response
        try:
            await response.write(_line(first))
            async for line in lines:
                await response.write(_line(line))
        except Exception:
            if request.transport is not None:  # half of a chat must not look like a chat
                request.transport.abort()
            raise
    await response.write_eof()
    return response


def _line(text: str) -> bytes:
    return f"{text}\n".encode(errors="replace")


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
    left to the agent. The files in it become files of the caller.
    """
    data = await received(request, call.server.limits.transfer)
    try:
        # Beside the event loop: a large one takes a second, and everybody would wait for it.
        given, hash = await call.server.ports.in_thread(partial(_understood, data))
        named = key_for(call, "import", (query.agent, hash))
        chat = await call.server.host.adopt(
            given, named, agent=query.agent, owner=call.user, quota=call.server.limits.quota
        )
    except UnicodeDecodeError:
        raise BadBody("this is no text in UTF-8: send an export in JSONL") from None
    except (FormatError, msgspec.ValidationError) as error:
        raise BadBody(f"this is no export of a chat: {error}") from None
    return shown(chat.first)


def _understood(data: bytes) -> tuple[Exported, str]:
    """What it holds, and its hash."""
    given = parse(data.decode())
    described = {"title": given.chat.title, "labels": given.chat.labels}
    msgspec.convert(described, Described)
    return given, sha256(data).hexdigest()


class Described(Struct, frozen=True):
    """What a chat may be called, as everywhere else."""

    title: Title | None
    labels: Labels


prepare_to_decode(Described)
