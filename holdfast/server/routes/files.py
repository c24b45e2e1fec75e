"""Files that people give along with what they say."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Annotated, Final

from aiohttp import web
from msgspec import Meta, Struct

from holdfast.chat import files
from holdfast.chat.files import StoredFile
from holdfast.kernel.messages import prepare_to_decode
from holdfast.server.given import CursorText, Given, Id, Limit
from holdfast.server.once import once
from holdfast.server.operation import Call, Content, operation
from holdfast.server.pages import cursor_of, place_of
from holdfast.server.problem import BadRequest, TooLarge
from holdfast.store.database import Tx

SAFE: Final = frozenset(("image/png", "image/jpeg", "image/gif", "image/webp", "image/avif"))
"""What a browser may show where it is: nothing of it can act. An SVG can."""
_MEDIA: Final = re.compile(r"[a-zA-Z0-9!#$&^_.+-]{1,100}/[a-zA-Z0-9!#$&^_.+-]{1,100}")
UNKNOWN: Final = "application/octet-stream"


class Upload(Given, frozen=True):
    name: Annotated[str, Meta(min_length=1, max_length=255)] | None = None


async def received(request: web.Request, limit: int) -> bytes:
    """A body of any kind, which is not read on once it is too large."""
    too_large = TooLarge(f"this has more than {limit} bytes: send less", limit=limit)
    if (request.content_length or 0) > limit:
        raise too_large
    data = bytearray()
    async for chunk in request.content.iter_any():
        if len(data) + len(chunk) > limit:
            raise too_large
        data += chunk
    return bytes(data)


@operation(
    "POST", "/files", "Upload a file: its bytes are the body", status=201, raw=True, takes="*/*"
)
async def upload_file(call: Call, request: web.Request, query: Upload) -> StoredFile:
    """Its media type is that of the body. The same bytes are stored once."""
    media_type = _media_type(request)
    data = await received(request, call.server.limits.file)
    hash, id = sha256(data).hexdigest(), call.server.ports.new_id()

    async def add(tx: Tx) -> StoredFile:
        return await files.add_file(tx, id, call.user, hash, data, media_type, query.name)

    return await once(call, "upload", (hash, media_type, query.name), StoredFile, add)


def _media_type(request: web.Request) -> str:
    said = request.headers.get("Content-Type", UNKNOWN).partition(";")[0].strip().lower()
    if not _MEDIA.fullmatch(said):
        raise BadRequest(f"{said!r:.80} is no media type: send a Content-Type, as image/png")
    return said


class ListFiles(Given, frozen=True):
    cursor: CursorText | None = None
    limit: Limit = 50


class FilePage(Struct, frozen=True):
    """Files, the newest first."""

    files: tuple[StoredFile, ...]
    next: str | None


@operation("GET", "/files", "List the caller's files")
async def list_files(call: Call, query: ListFiles) -> FilePage:
    before = place_of("files", query.cursor)

    async def read(tx: Tx) -> list[StoredFile]:
        return await files.list_files(tx, call.user, before=before, limit=query.limit + 1)

    found = await call.server.db.read(read)
    page, more = tuple(found[: query.limit]), len(found) > query.limit
    return FilePage(page, cursor_of("files", page[-1].id) if more else None)


@operation("GET", "/files/{id}", "Download a file", media="*/*")
async def download_file(call: Call, id: Id) -> Content:
    """Pictures may be shown where they are; anything else is for saving."""

    async def read(tx: Tx) -> tuple[StoredFile, bytes]:
        file = await files.read_file(tx, call.user, id)
        return file, await files.read_data(tx, file.hash)

    file, data = await call.server.db.read(read)
    shown = file.media_type in SAFE
    return Content(data, file.media_type, None if shown else file.name or file.id)


prepare_to_decode(StoredFile)
