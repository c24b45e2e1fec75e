"""The doctor: reads every row and reports violated invariants. Changes nothing.

Chats are examined one after the other, each on its own snapshot: writes may continue meanwhile, and
only one chat is in memory at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from functools import partial
from typing import Final

from msgspec import Struct, structs

from holdfast.chat import invariants
from holdfast.chat.invariants import TABLES, ChatRows, RawRow
from holdfast.chat.rows import CHAT_COLUMNS
from holdfast.kernel.errors import FormatError
from holdfast.kernel.messages import decode
from holdfast.store.database import Damaged, Database, Tx, Unavailable

IDS_PER_QUERY: Final = 500
"""Number of chat ids read per query."""
MAX_ORPHANS: Final = 100
"""Maximum number of orphaned rows reported per table."""


class Finding(Struct, frozen=True):
    """A row that violates an invariant."""

    invariant: int
    chat: str
    """Id of the chat; empty when the row belongs to no chat."""
    where: str
    """The row, or a column of the chat's row."""
    description: str
    """What is wrong with the row."""

    def __str__(self) -> str:
        chat = f"chat {self.chat}, " if self.chat else ""
        return f"invariant {self.invariant}: {chat}{self.where}: {self.description}"


async def check(db: Database) -> None:
    """Raise an AssertionError that lists every finding."""
    async with aclosing(examine(db)) as findings:
        lines = [str(finding) async for finding in findings]
    if lines:
        raise AssertionError("\n".join([f"the doctor has {len(lines)} findings:", *lines]))


async def count(db: Database) -> int:
    """Return the number of chats to examine."""
    row = await db.read(lambda tx: tx.one("SELECT count(*) FROM chats"))
    return 0 if row is None else int(row[0])


async def examine(db: Database) -> AsyncGenerator[Finding, None]:
    """Yield every finding in a database, chat by chat."""
    await db.read(lambda tx: tx.one("SELECT 1"))  # raises if nothing can be read at all
    damaged = False
    try:
        if db.dialect.name == "sqlite":
            for description in [*await _file(db, _pages), *await _file(db, _foreign_keys)]:
                damaged = True
                yield Finding(5, "", "the database", description)
        for finding in await db.read(_orphans):
            yield finding
        ids = [""]
        while ids := await db.read(partial(_page, after=ids[-1])):
            for id in ids:
                for finding in await _chat(db, id):
                    yield finding
    except Unavailable as error:
        if not damaged:
            raise
        yield Finding(5, "", "the database", f"it cannot be read to its end: {error}")


# --- The database as a whole --------------------------------------------------------------------


async def _file(db: Database, query: Callable[[Tx], Awaitable[list[str]]]) -> list[str]:
    """Return what an integrity check of SQLite reports about the file."""
    try:
        return await db.read(query)
    except Unavailable as error:  # the check gives up on a badly damaged file
        return [str(error)]


async def _pages(tx: Tx) -> list[str]:
    return [row[0] for row in await tx.fetch("PRAGMA integrity_check") if row[0] != "ok"]


async def _foreign_keys(tx: Tx) -> list[str]:
    broken = Counter((row[0], row[2]) for row in await tx.fetch("PRAGMA foreign_key_check"))
    return [
        f"{count} of {table} point to {parent} that are not there"
        for (table, parent), count in broken.items()
    ]


async def _orphans(tx: Tx) -> list[Finding]:
    """Return findings about rows whose chat is missing, and about workers and idempotency keys."""
    findings = []
    for table in ("messages", "queue", "tool_calls", "awaited", "partials", "usage"):
        chat_ids = await tx.fetch(
            f"""
            SELECT DISTINCT chat_id FROM {table}
             WHERE NOT EXISTS (SELECT 1 FROM chats c WHERE c.id = chat_id) LIMIT {MAX_ORPHANS}
            """
        )
        findings += [
            Finding(5, row[0], table, "there are rows, and no such chat") for row in chat_ids
        ]
    for id, agents in await tx.fetch("SELECT id, agents FROM workers"):
        try:
            decode(agents, tuple[str, ...])
        except FormatError as error:
            description = f"its agents cannot be read: {error}"
            findings.append(Finding(17, "", f"worker {id}", description))
    requests = await tx.fetch(
        f"SELECT caller, key FROM requests WHERE response = '' LIMIT {MAX_ORPHANS}"
    )
    for caller, key in requests:
        description = f"what {caller} asked for was carried out, and has no answer"
        findings.append(Finding(10, "", f"key {key}", description))
    return findings


async def _page(tx: Tx, after: str) -> list[str]:
    rows = await tx.fetch(
        f"SELECT id FROM chats WHERE id > :after ORDER BY id LIMIT {IDS_PER_QUERY}",
        {"after": after},
    )
    return [row[0] for row in rows]


# --- One chat -----------------------------------------------------------------------------------


async def _chat(db: Database, id: str) -> list[Finding]:
    try:
        rows = await db.read(lambda tx: _rows(tx, id))
    except Damaged as error:
        return [Finding(1, id, "rows", str(error))]
    if rows is None:
        return []  # deleted since its id was read
    return [
        Finding(invariant, id, *description) for invariant, *description in invariants.examine(rows)
    ]


async def _rows(tx: Tx, id: str) -> ChatRows | None:
    """Read all rows of a chat on one snapshot."""
    row = await tx.one(f"SELECT {', '.join(CHAT_COLUMNS)} FROM chats WHERE id = :id", {"id": id})
    if row is None:
        return None
    chat = dict(zip(CHAT_COLUMNS, row, strict=True))
    rows_of_tables = {name: await _rows_of(tx, name, id) for name in ROW_SOURCES}
    return ChatRows(chat=chat, **rows_of_tables)


ROW_SOURCES: Final = {
    "parent": "chats t WHERE id = (SELECT parent_id FROM chats WHERE id = :id)",
    "messages": "messages t WHERE chat_id = :id",
    "queue": "queue t WHERE chat_id = :id",
    "tool_calls": "tool_calls t WHERE chat_id = :id",
    "awaited": "awaited t LEFT JOIN chats c ON c.id = t.child_id WHERE t.chat_id = :id",
    "partials": "partials t WHERE chat_id = :id",
    "usage": "usage t WHERE chat_id = :id",
    "spending": "chats t WHERE id = :id",
}


ROW_COLUMNS: Final = {
    name: [field.name for field in structs.fields(table.kind)] for name, table in TABLES.items()
}


async def _rows_of(tx: Tx, name: str, id: str) -> list[RawRow]:
    table, columns = TABLES[name], ROW_COLUMNS[name]
    rows = await tx.fetch(
        f"SELECT {', '.join(columns)} FROM {ROW_SOURCES[name]} ORDER BY {table.key or 1}",
        {"id": id},
    )
    return [dict(zip(columns, row, strict=True)) for row in rows]
