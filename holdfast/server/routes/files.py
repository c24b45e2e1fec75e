"""Files: upload, list, download and delete them."""

from __future__ import annotations

from contextlib import suppress
from hashlib import sha256
from typing import Annotated, Final

from msgspec import Meta, Struct

from holdfast.chat import files
from holdfast.chat.files import FileNotFound, StoredFile
from holdfast.chat.rows import read_chat
from holdfast.kernel.messages import prepare_to_decode
from holdfast.server.http_request import HttpRequest, read_body
from holdfast.server.idempotency import once
from holdfast.server.operation import ApiCall, BytesResponse, operation
from holdfast.server.pagination import cursor_of, cut, position_of
from holdfast.server.problem import BadRequest
from holdfast.server.shared_request_types import CursorText, Id, Limit, RequestStruct
from holdfast.store.database import Tx

INLINE_MEDIA_TYPES: Final = frozenset(
    ("image/png", "image/jpeg", "image/gif", "image/webp", "image/avif")
)
"""Media types that a browser may display inline: none of them can run code. An SVG can."""
DEFAULT_MEDIA_TYPE: Final = "application/octet-stream"


class UploadQuery(RequestStruct, frozen=True):
    """Query of an upload."""

    name: Annotated[str, Meta(min_length=1, max_length=files.MAX_NAME_LENGTH)] | None = None


@operation(
    "POST", "/files", "Upload a file: its bytes are the body", status=201, raw=True, takes="*/*"
)
async def upload_file(call: ApiCall, request: HttpRequest, query: UploadQuery) -> StoredFile:
    """The media type is that of the body. The same bytes are stored once."""
    media_type = _media_type(request)
    data = bytes(await read_body(request, call.server.limits.file))
    hash, id = sha256(data).hexdigest(), call.server.ports.new_id()

    async def add(tx: Tx) -> StoredFile:
        quota = call.server.limits.quota
        return await files.add_file(tx, id, call.user, hash, data, media_type, query.name, quota)

    return await once(call, "upload", (hash, media_type, query.name), StoredFile, add)


def _media_type(request: HttpRequest) -> str:
    media_type = (
        request.headers.get("Content-Type", DEFAULT_MEDIA_TYPE).partition(";")[0].strip().lower()
    )
    if not files.MEDIA_TYPE.fullmatch(media_type):
        raise BadRequest(
            f"{media_type!r:.80} is not a media type: send a Content-Type like image/png"
        )
    return media_type


class ListFiles(RequestStruct, frozen=True):
    """Query of `GET /files`."""

    cursor: CursorText | None = None
    limit: Limit = 50


class FilePage(Struct, frozen=True):
    """A page of files, newest first."""

    files: tuple[StoredFile, ...]
    next: str | None
    used: int
    """Bytes of all files of the caller."""
    quota: int
    """Most bytes that the caller's files may have."""


@operation("GET", "/files", "List the caller's files")
async def list_files(call: ApiCall, query: ListFiles) -> FilePage:
    before = position_of("files", query.cursor)

    async def read(tx: Tx) -> tuple[list[StoredFile], int]:
        rows = await files.list_files(tx, call.user, before=before, limit=query.limit + 1)
        return rows, await files.used_by(tx, call.user)

    rows, used = await call.server.db.read(read)
    page, more = cut(rows, query.limit)
    next = cursor_of("files", page[-1].id) if more else None
    return FilePage(page, next, used, call.server.limits.quota)


@operation("GET", "/files/{id}", "Download a file", media="*/*", download=True)
async def download_file(call: ApiCall, id: Id) -> BytesResponse:
    """Images may be displayed inline; anything else is an attachment."""

    async def read(tx: Tx) -> tuple[StoredFile, bytes]:
        file = await files.read_file(tx, call.user, id)
        return file, await files.read_data(tx, file.hash)

    return _content(*await call.server.db.read(read))


@operation("DELETE", "/files/{id}", "Delete a file that no chat refers to")
async def delete_file(call: ApiCall, id: Id) -> None:
    """Refused while a chat of the caller refers to it, since that would change the chat. Delete the
    chat first."""
    references = None
    # Not in the deleting transaction: this may read a lot, and would block others.
    with suppress(FileNotFound):  # raised again below, unless this request deleted the file before
        references = await call.server.db.read(lambda tx: files.refuse_in_use(tx, call.user, id))

    async def delete(tx: Tx) -> StoredFile:
        return await files.delete_file(tx, call.user, id, references)

    await once(call, "delete file", id, StoredFile, delete)


@operation(
    "GET",
    "/chats/{chat}/files/{id}",
    "Download a file that a chat refers to",
    media="*/*",
    download=True,
)
async def download_of_chat(call: ApiCall, chat: Id, id: Id) -> BytesResponse:
    """For callers who may read the message. `id` is in the part's `ref`, after `holdfast:`."""

    async def read(tx: Tx) -> tuple[StoredFile, bytes]:
        row = await read_chat(tx, chat)
        live = row.owner != call.user
        file = await files.read_file_of_chat(tx, row, id, live=live)
        return file, await files.read_data(tx, file.hash)

    return _content(*await call.server.db.read(read))


def _content(file: StoredFile, data: bytes) -> BytesResponse:
    inline = file.media_type in INLINE_MEDIA_TYPES
    return BytesResponse(data, file.media_type, None if inline else file.name or file.id)


prepare_to_decode(StoredFile)
