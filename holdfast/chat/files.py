"""Files that people give: a row for each, and the bytes once for each content."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from msgspec import Struct, structs

from holdfast.chat.errors import ChatError
from holdfast.chat.locked import now_of
from holdfast.chat.state import check_text
from holdfast.kernel.messages import File, Message, Part, ToolResult
from holdfast.store.database import Tx

P = TypeVar("P", bound=Part)

SCHEME: Final = "holdfast:"
"""What the `ref` of a part begins with, when its bytes are one of these."""


class FileNotFound(ChatError):
    kind = "file_not_found"

    def __init__(self, id: str) -> None:
        super().__init__(f"there is no file {id!r}: upload it first")
        self.id = id


class StoredFile(Struct, frozen=True, kw_only=True):
    """A file that somebody uploaded."""

    id: str
    owner: str
    hash: str
    """SHA-256 of the bytes, in hexadecimal."""
    size: int
    media_type: str
    name: str | None
    created_at: int

    def part(self) -> File:
        """As a part of a message."""
        return File(self.media_type, self.name, ref=SCHEME + self.id)


SELECT_FILE: Final = "SELECT id, owner, hash, size, media_type, name, created_at FROM files"


def _file_of(row: Any) -> StoredFile:
    return StoredFile(**dict(zip(StoredFile.__struct_fields__, row, strict=True)))


async def add_file(
    tx: Tx, id: str, owner: str, hash: str, data: bytes, media_type: str, name: str | None
) -> StoredFile:
    for what, text in (("name", name), ("media type", media_type), ("owner", owner)):
        check_text(what, text)
    await tx.execute(
        "INSERT INTO blobs (hash, data) VALUES (:hash, :data) ON CONFLICT (hash) DO NOTHING",
        {"hash": hash, "data": data},
    )
    values: dict[str, Any] = {
        "id": id,
        "owner": owner,
        "hash": hash,
        "size": len(data),
        "media_type": media_type,
        "name": name,
        "created_at": await now_of(tx),
    }
    await tx.execute(
        f"INSERT INTO files ({', '.join(values)}) VALUES ({', '.join(f':{n}' for n in values)})",
        values,
    )
    return StoredFile(**values)


async def read_file(tx: Tx, owner: str, id: str) -> StoredFile:
    """A file of this owner. What belongs to somebody else is not there."""
    row = await tx.one(
        f"{SELECT_FILE} WHERE id = :id AND owner = :owner", {"id": id, "owner": owner}
    )
    if row is None:
        raise FileNotFound(id)
    return _file_of(row)


async def read_data(tx: Tx, hash: str) -> bytes:
    row = await tx.one("SELECT data FROM blobs WHERE hash = :hash", {"hash": hash})
    assert row is not None  # a foreign key
    return bytes(row[0])


async def list_files(
    tx: Tx, owner: str, *, before: str | None = None, limit: int = 100
) -> list[StoredFile]:
    """The newest first. `before` is the id of the last one seen."""
    given: dict[str, Any] = {"owner": owner, "limit": limit}
    if before is not None:
        given["before"] = before
    rows: Sequence[Any] = await tx.fetch(
        f"""
        {SELECT_FILE} WHERE owner = :owner {"" if before is None else "AND id < :before"}
         ORDER BY id DESC LIMIT :limit
        """,
        given,
    )
    return [_file_of(row) for row in rows]


# --- for models ----------------------------------------------------------------------------------


def refs_in(messages: Iterable[Message]) -> set[str]:
    """The files that these messages only name."""
    return {
        part.ref
        for message in messages
        for part in _files_in(message.parts)
        if part.data is None and part.ref is not None and part.ref.startswith(SCHEME)
    }


def _files_in(parts: Iterable[Part]) -> Iterator[File]:
    for part in parts:
        if isinstance(part, File):
            yield part
        elif isinstance(part, ToolResult):
            yield from _files_in(part.content)


async def read_refs(tx: Tx, owner: str, refs: Iterable[str]) -> dict[str, bytes]:
    """The bytes behind these names. What the owner does not have is left out."""
    found: dict[str, bytes] = {}
    for ref in refs:
        try:
            file = await read_file(tx, owner, ref.removeprefix(SCHEME))
        except FileNotFound:
            continue
        found[ref] = await read_data(tx, file.hash)
    return found


def filled(messages: Sequence[Message], files: Mapping[str, bytes]) -> tuple[Message, ...]:
    """The messages as a model is to have them: with the bytes of their files."""
    return tuple(
        structs.replace(message, parts=tuple(_filled(part, files) for part in message.parts))
        if any(part.ref in files for part in _files_in(message.parts))
        else message
        for message in messages
    )


def _filled(part: P, files: Mapping[str, bytes]) -> P:
    if isinstance(part, File) and part.data is None and (part.ref or "") in files:
        return structs.replace(part, data=files[part.ref or ""])
    if isinstance(part, ToolResult):
        return structs.replace(part, content=tuple(_filled(one, files) for one in part.content))
    return part
