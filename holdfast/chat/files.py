"""Uploaded files: one row per file; files with equal bytes share them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from msgspec import Struct, structs

from holdfast.chat.database_clock import QUERY_OVERLAP, now_of
from holdfast.chat.errors import ChatError, InvalidInput
from holdfast.chat.rows import ChatRow, check_text, document
from holdfast.kernel.messages import File, Message, Part, ToolResult, results_message
from holdfast.store.database import Tx

P = TypeVar("P", bound=Part)

MEDIA_TYPE: Final = re.compile(r"[a-zA-Z0-9!#$&^_.+-]{1,100}/[a-zA-Z0-9!#$&^_.+-]{1,100}")
MAX_NAME_LENGTH: Final = 255
CLOCK_SET_BACK: Final = 24 * 3600 * 1_000_000
"""Microseconds by which a clock may be set back between an upload and the message that names it."""
MAX_CHATS_NAMED: Final = 10
"""Maximum number of chats named in the error when a file is in use."""
REF_PREFIX: Final = "holdfast:"
"""Prefix of the `ref` of a part whose bytes are an uploaded file."""


class FileNotFound(ChatError):
    """The owner has no file with this id."""

    kind = "file_not_found"

    def __init__(self, id: str) -> None:
        super().__init__(f"there is no file {id!r}: upload it first")
        self.id = id


class FileInUse(ChatError):
    """A file cannot be deleted, because chats refer to it."""

    kind = "file_in_use"

    def __init__(self, id: str, chats: Sequence[str]) -> None:
        ids = ", ".join(chats)
        super().__init__(f"the file {id!r} is part of chats ({ids}): delete these first")
        self.id = id
        self.chats = chats
        """Ids of some of the chats that refer to the file."""


class QuotaExceeded(ChatError):
    """An upload would exceed the owner's quota."""

    kind = "quota_exceeded"

    def __init__(self, limit: int, used: int, size: int) -> None:
        super().__init__(
            f"your files have {used} of {limit} bytes, and this has {size}: delete some first"
        )
        self.limit = limit
        self.used = used
        self.size = size


class StoredFile(Struct, frozen=True, kw_only=True):
    """An uploaded file, without its bytes."""

    id: str
    owner: str
    hash: str
    """SHA-256 of the bytes, in hexadecimal."""
    size: int
    media_type: str
    name: str | None
    created_at: int

    def part(self) -> File:
        """Return the file as a part of a message."""
        return File(self.media_type, self.name, ref=REF_PREFIX + self.id)


SELECT_FILE: Final = "SELECT id, owner, hash, size, media_type, name, created_at FROM files"


def _file_of(row: Any) -> StoredFile:
    return StoredFile(**dict(zip(StoredFile.__struct_fields__, row, strict=True)))


async def add_file(
    tx: Tx,
    id: str,
    owner: str,
    hash: str,
    data: bytes,
    media_type: str,
    name: str | None,
    quota: int | None = None,
) -> StoredFile:
    """Store an uploaded file.

    `quota` is the maximum total size in bytes of the owner's files. Simultaneous uploads together
    may exceed it.
    """
    for column, text in (("name", name), ("owner", owner)):
        check_text(column, text)
    if not MEDIA_TYPE.fullmatch(media_type):  # it becomes part of an HTTP header
        raise InvalidInput(f"{media_type!r:.80} is not a media type: use one such as image/png")
    if name is not None and len(name) > MAX_NAME_LENGTH:
        raise InvalidInput(f"the name of a file has {len(name)} characters: use {MAX_NAME_LENGTH}")
    if quota is not None and (used := await used_by(tx, owner)) + len(data) > quota:
        raise QuotaExceeded(quota, used, len(data))
    await _add_blob(tx, hash, data)
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


async def _add_blob(tx: Tx, hash: str, data: bytes) -> None:
    """Store the bytes, or lock the stored ones, until this transaction ends."""
    while True:
        await tx.execute(
            "INSERT INTO blobs (hash, data) VALUES (:hash, :data) ON CONFLICT (hash) DO NOTHING",
            {"hash": hash, "data": data},
        )
        # Deleting the last file with these bytes deletes the bytes: then insert them again.
        if await _lock_blob(tx, hash):
            return


async def _lock_blob(tx: Tx, hash: str) -> bool:
    query = f"SELECT 1 FROM blobs WHERE hash = :hash {tx.dialect.lock}"
    return await tx.one(query, {"hash": hash}) is not None


async def used_by(tx: Tx, owner: str) -> int:
    """Return the total bytes of an owner's files. Bytes uploaded twice count twice."""
    row = await tx.one(
        "SELECT COALESCE(sum(size), 0) FROM files WHERE owner = :owner", {"owner": owner}
    )
    assert row is not None
    return int(row[0])


async def lock_files(tx: Tx, owner: str, message: Message) -> None:
    """Lock the files that a message refers to, until this transaction ends.

    Once the message is committed, they cannot be deleted. Raises `FileNotFound`.
    """
    ids = sorted(ref.removeprefix(REF_PREFIX) for ref in refs_in([message]))
    if not ids:
        return
    for id in ids:
        check_text("id of a file", id)
    rows = await tx.fetch(
        f"""
        SELECT id FROM files WHERE owner = :owner AND {tx.dialect.one_of("id", "ids")}
         ORDER BY id {tx.dialect.lock}
        """,
        {"owner": owner, "ids": ids},
    )
    existing = {row[0] for row in rows}
    for id in ids:
        if id not in existing:
            raise FileNotFound(id)


async def refuse_in_use(tx: Tx, owner: str, id: str) -> int:
    """Raise `FileInUse` if the history or queue of one of the owner's chats refers to the file.

    Reads all chats that changed after the upload, or up to a day before it in case the clock was
    set back. Returns the time of this query.
    """
    queried_at = await now_of(tx)
    file = await read_file(tx, owner, id)
    await _refuse_named(tx, file, file.created_at - CLOCK_SET_BACK)
    return queried_at


async def _refuse_named(tx: Tx, file: StoredFile, since: int) -> None:
    """Raise `FileInUse` if a chat that changed since `since` refers to the file."""
    ref = REF_PREFIX + file.id
    rows = await tx.fetch(
        f"""
        SELECT c.id, m.body FROM chats c JOIN messages m ON m.chat_id = c.id
         WHERE c.owner = :owner AND c.updated_at >= :since AND {_contains(tx, "m.body")}
        UNION ALL
        SELECT c.id, q.body FROM chats c JOIN queue q ON q.chat_id = c.id
         WHERE c.owner = :owner AND c.updated_at >= :since AND {_contains(tx, "q.body")}
        """,
        {"owner": file.owner, "since": since, "text": ref},
    )
    chats = {
        chat for chat, body in rows if ref in refs_in([document(chat, "message", body, Message)])
    }
    chats |= await _in_results(tx, file.owner, ref, since)
    if chats:
        raise FileInUse(file.id, sorted(chats)[:MAX_CHATS_NAMED])


async def _in_results(tx: Tx, owner: str, ref: str, since: int) -> set[str]:
    """Return the chats with a recorded result that refers to the file and is not in the history."""
    rows = await tx.fetch(
        f"""
        SELECT c.id, t.result FROM chats c JOIN tool_calls t ON t.chat_id = c.id
         WHERE c.owner = :owner AND c.updated_at >= :since AND t.result IS NOT NULL
           AND {_contains(tx, "t.result")}
        """,
        {"owner": owner, "since": since, "text": ref},
    )
    results = [(chat, document(chat, "result of a call", body, ToolResult)) for chat, body in rows]
    return {chat for chat, result in results if ref in refs_in([results_message([result])])}


async def delete_file(tx: Tx, owner: str, id: str, queried_at: int | None = None) -> StoredFile:
    """Delete a file, and its bytes if no other file has them. Raises `FileInUse`.

    `queried_at` is the time at which `refuse_in_use` found no chat that refers to the file. Only
    chats that changed around that time or later are read again, so that the transaction is short.
    """
    # A transaction that adds a reference holds the file's lock: this waits for it. A later one does
    # not find the file.
    file = await read_file(tx, owner, id, tx.dialect.lock)
    since = file.created_at - CLOCK_SET_BACK
    await _refuse_named(
        tx, file, since if queried_at is None else max(since, queried_at - QUERY_OVERLAP)
    )
    await tx.execute("DELETE FROM files WHERE id = :id", {"id": id})
    if await _lock_blob(tx, file.hash):
        await tx.execute(
            """
            DELETE FROM blobs WHERE hash = :hash
               AND NOT EXISTS (SELECT 1 FROM files WHERE files.hash = blobs.hash)
            """,
            {"hash": file.hash},
        )
    return file


def _contains(tx: Tx, column: str) -> str:
    """Return a condition: the column contains `:text`, taken literally."""
    find = "instr" if tx.dialect.name == "sqlite" else "strpos"
    return f"{find}({column}, :text) > 0"


async def read_file(tx: Tx, owner: str, id: str, lock: str = "") -> StoredFile:
    """Return a file of this owner. Files of other owners are not found."""
    check_text("id of a file", id)
    row = await tx.one(
        f"{SELECT_FILE} WHERE id = :id AND owner = :owner {lock}", {"id": id, "owner": owner}
    )
    if row is None:
        raise FileNotFound(id)
    return _file_of(row)


async def read_file_of_chat(tx: Tx, chat: ChatRow, id: str, *, live: bool = False) -> StoredFile:
    """Return a file that the history or the queue of this chat refers to.

    The file must belong to the chat's owner; a reference to another owner's file is not found. With
    `live`, references in superseded messages do not count.
    """
    file = await read_file(tx, chat.owner, id)
    ref = REF_PREFIX + id
    for body in await _bodies_with(tx, chat.id, ref, live):
        if ref in refs_in([document(chat.id, "message", body, Message)]):
            return file
    raise FileNotFound(id)


async def _bodies_with(tx: Tx, chat_id: str, text: str, live: bool) -> list[str]:
    """Return the bodies of the messages that contain this text."""
    condition = "AND superseded_at IS NULL" if live else ""
    contains = _contains(tx, "body")
    rows = await tx.fetch(
        f"""
        SELECT body FROM messages WHERE chat_id = :id AND {contains} {condition}
        UNION ALL SELECT body FROM queue WHERE chat_id = :id AND {contains}
        """,
        {"id": chat_id, "text": text},
    )
    return [row[0] for row in rows]


async def files_named_in(
    tx: Tx, owner: str, chat_id: str, *, live: bool = False
) -> tuple[StoredFile, ...]:
    """Return the owner's files that messages of a chat refer to, without their bytes.

    With `live`, references in superseded messages do not count.
    """
    condition = "AND superseded_at IS NULL" if live else ""
    # The JSON of a reference. In the text of a message the quotes would be escaped.
    params = {"id": chat_id, "text": f'"ref":"{REF_PREFIX}'}
    rows = await tx.fetch(
        f"""
        SELECT number FROM messages WHERE chat_id = :id AND {_contains(tx, "body")} {condition}
         ORDER BY number
        """,
        params,
    )
    refs: set[str] = set()
    for (number,) in rows:
        row = await tx.one(
            "SELECT body FROM messages WHERE chat_id = :id AND number = :number",
            {"id": chat_id, "number": number},
        )
        if row is not None:
            refs |= refs_in([document(chat_id, f"message {number}", row[0], Message)])
    return await _files_of(tx, owner, sorted(refs))


async def _files_of(tx: Tx, owner: str, refs: Sequence[str]) -> tuple[StoredFile, ...]:
    rows = await tx.fetch(
        f"""
        {SELECT_FILE} WHERE owner = :owner AND {tx.dialect.one_of("id", "ids")} ORDER BY id
        """,
        {"owner": owner, "ids": [ref.removeprefix(REF_PREFIX) for ref in refs]},
    )
    return tuple(_file_of(row) for row in rows)


async def read_data(tx: Tx, hash: str) -> bytes:
    """Read the bytes of a file in the transaction that read its row: later they may be deleted."""
    data = await find_data(tx, hash)
    assert data is not None  # guaranteed by a foreign key
    return data


async def find_data(tx: Tx, hash: str) -> bytes | None:
    """Read the bytes with this hash; None when they are not stored."""
    row = await tx.one("SELECT data FROM blobs WHERE hash = :hash", {"hash": hash})
    return None if row is None else bytes(row[0])


async def list_files(
    tx: Tx, owner: str, *, before: str | None = None, limit: int = 100
) -> list[StoredFile]:
    """Return an owner's files, newest first. `before` is the id of the last one seen."""
    params: dict[str, Any] = {"owner": owner, "limit": limit}
    if before is not None:
        params["before"] = before
    rows: Sequence[Any] = await tx.fetch(
        f"""
        {SELECT_FILE} WHERE owner = :owner {"" if before is None else "AND id < :before"}
         ORDER BY id DESC LIMIT :limit
        """,
        params,
    )
    return [_file_of(row) for row in rows]


# --- for models ----------------------------------------------------------------------------------


def refs_in(messages: Iterable[Message]) -> set[str]:
    """Return the references to files in these messages. Optimized for messages without any."""
    refs: set[str] = set()
    for message in messages:
        for part in message.parts:
            for content_part in part.content if type(part) is ToolResult else (part,):
                if (
                    type(content_part) is File
                    and content_part.data is None
                    and content_part.ref is not None
                ):
                    refs.add(content_part.ref)
    return {ref for ref in refs if ref.startswith(REF_PREFIX)} if refs else refs


def _files_in(parts: Iterable[Part]) -> Iterator[File]:
    for part in parts:
        if isinstance(part, File):
            yield part
        elif isinstance(part, ToolResult):
            yield from _files_in(part.content)


async def read_refs(tx: Tx, owner: str, refs: Iterable[str]) -> dict[str, bytes]:
    """Read the bytes of these references. Files that the owner does not have are left out."""
    data: dict[str, bytes] = {}
    for ref in refs:
        try:
            file = await read_file(tx, owner, ref.removeprefix(REF_PREFIX))
        except FileNotFound:
            continue
        data[ref] = await read_data(tx, file.hash)
    return data


def with_refs(messages: Iterable[Message], refs: Mapping[str, str]) -> tuple[Message, ...]:
    """Return the messages with some file references replaced."""
    return tuple(
        structs.replace(message, parts=tuple(_part_with_ref(part, refs) for part in message.parts))
        for message in messages
    )


def _part_with_ref(part: P, refs: Mapping[str, str]) -> P:
    if isinstance(part, File) and part.ref is not None and part.ref in refs:
        return structs.replace(part, ref=refs[part.ref])
    if isinstance(part, ToolResult):
        return structs.replace(
            part, content=tuple(_part_with_ref(content_part, refs) for content_part in part.content)
        )
    return part


def with_bytes(messages: Sequence[Message], files: Mapping[str, bytes]) -> tuple[Message, ...]:
    """Return the messages with the bytes of their files, as a model needs them."""
    return tuple(
        structs.replace(
            message, parts=tuple(_part_with_bytes(part, files) for part in message.parts)
        )
        if any(part.ref in files for part in _files_in(message.parts))
        else message
        for message in messages
    )


def _part_with_bytes(part: P, files: Mapping[str, bytes]) -> P:
    if isinstance(part, File) and part.data is None and (part.ref or "") in files:
        return structs.replace(part, data=files[part.ref or ""])
    if isinstance(part, ToolResult):
        return structs.replace(
            part,
            content=tuple(_part_with_bytes(content_part, files) for content_part in part.content),
        )
    return part
