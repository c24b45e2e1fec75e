"""Export and import of chats."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from hashlib import sha256
from tempfile import SpooledTemporaryFile
from typing import IO, Final

import msgspec
from msgspec import Struct

from holdfast.chat.export import Exported, Format, parse
from holdfast.chat.handle import Chat
from holdfast.chat.listing import ReaderChat, for_reader
from holdfast.kernel.errors import FormatError
from holdfast.kernel.messages import prepare_to_decode
from holdfast.server.http_request import HttpRequest, body_pieces
from holdfast.server.idempotency import key_for
from holdfast.server.operation import ApiCall, PiecesResponse, headers_of, operation
from holdfast.server.problem import BadBody
from holdfast.server.shared_request_types import ChatLabels, Name, RequestStruct, Title

JSONL_MEDIA_TYPE: Final = "application/x-ndjson"
MARKDOWN_MEDIA_TYPE: Final = "text/markdown"
MAX_SPOOL_MEMORY: Final = 4 * 1024 * 1024
"""Bytes of an upload that stay in memory; a larger one goes to a temporary file."""
EXPORT_TYPES: Final[Mapping[Format, tuple[str, str]]] = {
    "jsonl": (JSONL_MEDIA_TYPE, "jsonl"),
    "markdown": (MARKDOWN_MEDIA_TYPE, "md"),
}
"""Media type and file extension of each format."""


class ExportQuery(RequestStruct, frozen=True):
    """Query of an export."""

    format: Format = "jsonl"
    """`jsonl` is lossless and can be imported; `markdown` is for people."""
    files: bool = True
    """Include the bytes of the chat's files, in JSONL."""


@operation(
    "GET",
    "/chats/{chat}/export",
    "Export a chat as a file",
    media=f"{JSONL_MEDIA_TYPE}, {MARKDOWN_MEDIA_TYPE}",
    raw=True,
    download=True,
)
async def export_chat(
    call: ApiCall, request: HttpRequest, chat: Chat, query: ExportQuery
) -> PiecesResponse:
    """The owner gets everything. Other readers get it without superseded messages, renumbered."""
    live = chat.owner != call.user
    media, ending = EXPORT_TYPES[query.format]
    headers = headers_of(f"{media}; charset=utf-8", f"chat-{chat.id}.{ending}")
    pieces = chat.export_pieces(query.format, files=query.files, live=live)
    first = await anext(pieces)  # raises before the response begins, if it is refused
    return PiecesResponse(headers, first, pieces)


class ImportQuery(RequestStruct, frozen=True):
    """Query of an import."""

    agent: Name | None = None
    """Agent that continues the chat; None: the one it had."""


@operation(
    "POST",
    "/chats/import",
    "Import a chat from an export in JSONL",
    status=201,
    raw=True,
    takes=JSONL_MEDIA_TYPE,
)
async def import_chat(call: ApiCall, request: HttpRequest, query: ImportQuery) -> ReaderChat:
    """The new chat has the same messages and belongs to the caller. Its approvals are not imported.

    Calls without a result get one that says so, as in a fork. A model that is not available here is
    replaced by the agent's. The files in the export become files of the caller.
    """
    try:
        # An upload may be slow, so its body is read before it takes one of the few places.
        with SpooledTemporaryFile(max_size=MAX_SPOOL_MEMORY) as body:
            async for chunk in body_pieces(request, call.server.limits.transfer):
                body.write(chunk)
            async with call.server.imports:
                chat = await _import(call, body, query.agent)
    except UnicodeDecodeError:
        raise BadBody("the body is not UTF-8 text: send an export in JSONL") from None
    except (FormatError, msgspec.ValidationError) as error:
        raise BadBody(f"the body is not an export of a chat: {error}") from None
    return for_reader(chat.first)


async def _import(call: ApiCall, body: IO[bytes], agent: str | None) -> Chat:
    server = call.server
    # In a thread: a large one takes a second, and would block all other requests.
    exported, hash = await server.ports.in_thread(partial(_parsed, body))
    key = key_for(call, "import", (agent, hash))
    return await server.host.adopt(
        exported, key, agent=agent, owner=call.user, quota=server.limits.quota
    )


def _parsed(body: IO[bytes]) -> tuple[Exported, str]:
    """Parse an export; return it and its hash."""
    body.seek(0)
    data = body.read()
    exported = parse(data)
    fields = {"title": exported.chat.title, "labels": exported.chat.labels}
    msgspec.convert(fields, ImportedFields)
    return exported, sha256(data).hexdigest()


class ImportedFields(Struct, frozen=True):
    """Checks title and labels as everywhere else."""

    title: Title | None
    labels: ChatLabels


prepare_to_decode(ImportedFields)
