"""Which chats a person is shown, in which order, and with what."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, structs

from holdfast.chat import search
from holdfast.chat.marks import NO_MARKS, Marks, read_marks
from holdfast.chat.search import Looked, Match
from holdfast.chat.state import SELECT_CHAT, Chat, Status, chat_of
from holdfast.chat.view import Snapshot, Watch, read_context, snapshot_of, snapshots
from holdfast.kernel.messages import prepare_to_decode
from holdfast.store.database import Tx


class Shown(Snapshot, frozen=True, kw_only=True):
    """A chat as one person sees it."""

    read: int = 0
    """The number of the last message that they have read."""
    unread: bool = False
    """Whether an answer came since."""
    pinned: bool = False
    needs_me: bool = False
    """Whether it, or a chat that it set to work, waits for somebody to say something."""
    matches: tuple[Match, ...] = ()
    """Where it has what was looked for: the title first, then the newest messages."""


def shown(chat: Snapshot, marks: Marks = NO_MARKS, matches: tuple[Match, ...] = ()) -> Shown:
    return Shown(**structs.asdict(chat), **structs.asdict(marks), matches=matches)


async def show(tx: Tx, reader: str, row: Chat, watch: Watch | None = None) -> Shown:
    """A chat for one reader, with what lists leave out. `watch`: also whether it is stranded."""
    chat = snapshot_of(row) if watch is None else (await snapshots(tx, [row], watch))[0]
    chat = structs.replace(chat, context=await read_context(tx, row.id))
    return shown(chat, (await read_marks(tx, reader, [row]))[row.id])


class Wanted(Struct, frozen=True, kw_only=True):
    """Which chats of a person."""

    owner: str
    parent: str | None = None
    """None: those that no other chat set to work."""
    archived: bool = False
    status: Status | None = None
    agent: str | None = None
    label: tuple[str, str | None] | None = None
    """A name and its value, or any."""
    pinned: bool | None = None
    looked: Looked | None = None
    before: str | None = None
    """The id of the last one seen."""
    limit: int = 50


async def list_shown(tx: Tx, wanted: Wanted, watch: Watch) -> list[Shown]:
    """A page, the newest first."""
    where, given = _where(tx, wanted)
    rows = await tx.fetch(
        f"{SELECT_CHAT} WHERE {' AND '.join(where)} ORDER BY id DESC LIMIT :limit",
        {**given, "limit": wanted.limit},
    )
    chats = [chat_of(row) for row in rows]
    marks = await read_marks(tx, wanted.owner, chats)
    found: dict[str, tuple[Match, ...]] = {}
    if wanted.looked is not None and chats:
        found = await search.matches(tx, [chat.id for chat in chats], wanted.looked)
    return [
        shown(chat, marks[chat.id], found.get(chat.id, ()))
        for chat in await snapshots(tx, chats, watch)
    ]


def _where(tx: Tx, wanted: Wanted) -> tuple[list[str], dict[str, Any]]:
    given: dict[str, Any] = {"owner": wanted.owner}
    where = ["owner = :owner", f"archived = {int(wanted.archived)}"]
    for name, column in (("parent", "parent_id"), ("status", "status"), ("agent", "agent")):
        if (value := getattr(wanted, name)) is not None:
            given[name] = str(value)
            where.append(f"{column} = :{name}")
    if wanted.parent is None:
        where.append("parent_id IS NULL")
    if wanted.before is not None:
        given["before"] = wanted.before
        where.append("id < :before")
    if wanted.pinned is not None:
        pins = "SELECT chat_id FROM marks WHERE reader = :owner AND pinned = 1"
        where.append(f"id {'IN' if wanted.pinned else 'NOT IN'} ({pins})")
    if wanted.label is not None:
        where.append(_labelled(tx, wanted.label, given))
    if wanted.looked is not None:
        found, more = search.condition(tx, wanted.looked)
        given |= more
        where.append(f"id IN (SELECT p.chat_id FROM passages p WHERE {found})")
    return where, given


def _labelled(tx: Tx, label: tuple[str, str | None], given: dict[str, Any]) -> str:
    """The one place where labels are looked into by the database."""
    given["label"], value = label
    if value is not None:
        given["value"] = value
    if tx.dialect.name == "sqlite":
        same = "" if value is None else "AND value = :value"
        return f"EXISTS (SELECT 1 FROM json_each(labels) WHERE key = :label {same})"
    found = "CAST(labels AS jsonb) ->> CAST(:label AS text)"
    return f"{found} IS NOT NULL" if value is None else f"{found} = :value"


prepare_to_decode(Shown)
