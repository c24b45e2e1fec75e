"""Which chats a person is shown, in which order, and with what."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from msgspec import Struct, structs

from holdfast.chat import search
from holdfast.chat.marks import NO_MARKS, Marks, read_marks, shared_with
from holdfast.chat.search import Looked, Match
from holdfast.chat.state import SELECT_CHAT, Chat, Status, chat_of, document
from holdfast.chat.view import Snapshot, Watch, read_context, snapshot_of, snapshots
from holdfast.kernel.messages import Message, prepare_to_decode
from holdfast.store.database import Tx

OPENING: Final = 80
"""Characters of the first words of a chat."""


class Shown(Snapshot, frozen=True, kw_only=True):
    """A chat as one person sees it."""

    read: int = 0
    """The number of the last message that they have read."""
    unread: bool = False
    """Whether an answer came since."""
    pinned: bool = False
    needs_me: bool = False
    """Whether it, or a chat that it set to work, waits for its owner to say something."""
    mine: bool = True
    """False: it is somebody else's (`owner`), and shared with them for reading."""
    owner_name: str | None = None
    """Of whoever it belongs to, when that is another user."""
    opening: str | None = None
    """Its first words, while it has no title."""
    matches: tuple[Match, ...] = ()
    """Where it has what was looked for: the title first, then the newest messages."""


def shown(
    chat: Snapshot,
    marks: Marks = NO_MARKS,
    opening: str | None = None,
    matches: tuple[Match, ...] = (),
) -> Shown:
    return Shown(**structs.asdict(chat), **structs.asdict(marks), opening=opening, matches=matches)


async def read_openings(tx: Tx, chats: Sequence[Chat]) -> dict[str, str]:
    """The first words of those that have no title."""
    untitled = [chat.id for chat in chats if chat.title is None]
    if not untitled:
        return {}
    rows = await tx.fetch(
        f"""
        SELECT chat_id, body FROM messages m
         WHERE {tx.dialect.one_of("chat_id", "ids")}
           AND number = (SELECT MIN(number) FROM messages
                          WHERE chat_id = m.chat_id AND kind = 'prompt' AND superseded_at IS NULL)
        """,
        {"ids": untitled},
    )
    said = {row[0]: document(row[0], "message", row[1], Message).text for row in rows}
    return {id: words for id, text in said.items() if (words := _first_words(text))}


def _first_words(text: str) -> str:
    words = " ".join(text[: 4 * OPENING].split())
    return words if len(words) <= OPENING else words[: OPENING - 1].rstrip() + "…"


async def show(tx: Tx, reader: str, row: Chat, watch: Watch | None = None) -> Shown:
    """A chat for one reader, with what lists leave out. `watch`: also whether it is stranded."""
    chat = snapshot_of(row) if watch is None else (await snapshots(tx, [row], watch))[0]
    chat = structs.replace(chat, context=await read_context(tx, row.id))
    opening = (await read_openings(tx, [row])).get(row.id)
    return shown(chat, (await read_marks(tx, reader, [row]))[row.id], opening)


class Wanted(Struct, frozen=True, kw_only=True):
    """Which of the chats that a person may read."""

    reader: str
    shared: bool | None = None
    """True: only those that others share with them. False: only their own."""
    parent: str | None = None
    """A chat that they may read. None: their own that no other chat set to work, and those that
    are shared with them."""
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
    # A page of each, so that each is read in the order of its index.
    pages = [
        f"""
        SELECT id FROM (SELECT id FROM chats WHERE {" AND ".join((which, *where))}
                         ORDER BY id DESC LIMIT :limit) AS page
        """
        for which in _whose(tx, wanted)
    ]
    rows = await tx.fetch(
        f"{SELECT_CHAT} WHERE id IN ({'UNION ALL'.join(pages)}) ORDER BY id DESC LIMIT :limit",
        {**given, "limit": wanted.limit},
    )
    chats = [chat_of(row) for row in rows]
    marks = await read_marks(tx, wanted.reader, chats)
    openings = await read_openings(tx, chats)
    found: dict[str, tuple[Match, ...]] = {}
    if wanted.looked is not None and chats:
        found = await search.matches(tx, [chat.id for chat in chats], wanted.looked)
    return [
        shown(chat, marks[chat.id], openings.get(chat.id), found.get(chat.id, ()))
        for chat in await snapshots(tx, chats, watch)
    ]


def _whose(tx: Tx, wanted: Wanted) -> Iterator[str]:
    inside = "parent_id = :parent" if wanted.parent is not None else None
    if wanted.shared is not True:
        yield f"owner = :reader AND {inside or 'parent_id IS NULL'}"
    if wanted.shared is not False:
        yield f"owner <> :reader AND {inside or f'id IN ({shared_with(tx)})'}"


def _where(tx: Tx, wanted: Wanted) -> tuple[list[str], dict[str, Any]]:
    given: dict[str, Any] = {"reader": wanted.reader}
    where = [f"archived = {int(wanted.archived)}"]
    if wanted.parent is not None:
        given["parent"] = wanted.parent
    for name, column in (("status", "status"), ("agent", "agent")):
        if (value := getattr(wanted, name)) is not None:
            given[name] = str(value)
            where.append(f"{column} = :{name}")
    if wanted.before is not None:
        given["before"] = wanted.before
        where.append("id < :before")
    if wanted.pinned is not None:
        pins = "SELECT chat_id FROM marks WHERE reader = :reader AND pinned = 1"
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
