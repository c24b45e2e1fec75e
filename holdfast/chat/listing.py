"""The list of chats as one person sees it: filters, order, pages and what each row shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from msgspec import Struct, structs

from holdfast.chat import search
from holdfast.chat.read_state import NO_MARKS, Marks, read_marks, shared_with
from holdfast.chat.rows import SELECT_CHAT, Chat, Status, chat_of, document
from holdfast.chat.search import Looked, Match
from holdfast.chat.snapshots import (
    Snapshot,
    Watch,
    read_context,
    read_interrupted,
    snapshot_of,
    snapshots,
)
from holdfast.kernel.messages import Message, prepare_to_decode
from holdfast.store.database import Tx

OPENING: Final = 80
"""Maximum length of a chat's opening words, in characters."""


class Shown(Snapshot, frozen=True, kw_only=True):
    """A chat as one person sees it."""

    read: int = 0
    """Number of the last message that the person has read."""
    unread: bool = False
    """Whether an answer came since the last message that was read."""
    pinned: bool = False
    needs_me: bool = False
    """Whether the chat, or one below it, waits for an action of its owner."""
    mine: bool = True
    """False when the chat belongs to another user (`owner`) who shares it for reading."""
    owner_name: str | None = None
    """Name of the owner, when that is another user."""
    opening: str | None = None
    """Opening words of the chat, while it has no title."""
    matches: tuple[Match, ...] = ()
    """Search matches in the chat: the title first, then the newest messages."""


def shown(
    chat: Snapshot,
    marks: Marks = NO_MARKS,
    opening: str | None = None,
    matches: tuple[Match, ...] = (),
) -> Shown:
    """Combine a snapshot with a reader's marks, the opening words and the search matches."""
    return Shown(**structs.asdict(chat), **structs.asdict(marks), opening=opening, matches=matches)


async def read_openings(tx: Tx, chats: Sequence[Chat]) -> dict[str, str]:
    """Read the opening words of those chats that have no title."""
    untitled = [chat.id for chat in chats if chat.title is None]
    if not untitled:
        return {}
    rows = await tx.fetch(
        f"""
        SELECT id, (SELECT body FROM messages m
                     WHERE m.chat_id = c.id AND kind = 'prompt' AND superseded_at IS NULL
                     ORDER BY number LIMIT 1)
          FROM chats c WHERE {tx.dialect.one_of("id", "ids")}
        """,
        {"ids": untitled},
    )
    said = {id: document(id, "message", body, Message).text for id, body in rows if body}
    return {id: words for id, text in said.items() if (words := _first_words(text))}


def _first_words(text: str) -> str:
    words = " ".join(text[: 4 * OPENING].split())
    return words if len(words) <= OPENING else words[: OPENING - 1].rstrip() + "…"


async def show(tx: Tx, reader: str, row: Chat, watch: Watch | None = None) -> Shown:
    """Read one chat for one reader, with fields that lists omit.

    `watch` adds whether it is stranded or was interrupted by a restart.
    """
    chat = snapshot_of(row) if watch is None else (await snapshots(tx, [row], watch))[0]
    chat = structs.replace(
        chat,
        context=await read_context(tx, row.id),
        partial=None if watch is None else await read_interrupted(tx, row, watch),
    )
    opening = (await read_openings(tx, [row])).get(row.id)
    return shown(chat, (await read_marks(tx, reader, [row]))[row.id], opening)


class Wanted(Struct, frozen=True, kw_only=True):
    """Filter on the chats that a person may read."""

    reader: str
    shared: bool | None = None
    """True selects chats shared by others, False the person's own, None both."""
    parent: str | None = None
    """Id of a chat whose children are selected. None selects the person's own root chats and those
    that are shared with them."""
    archived: bool = False
    status: Status | None = None
    agent: str | None = None
    label: tuple[str, str | None] | None = None
    """Name of a label and its value; None for any value."""
    pinned: bool | None = None
    looked: Looked | None = None
    before: str | None = None
    """Id of the last chat seen."""
    limit: int = 50


async def list_shown(tx: Tx, wanted: Wanted, watch: Watch) -> list[Shown]:
    """Read a page of chats, newest first."""
    where, given = _where(tx, wanted)
    # One page per source, so that each is read in the order of its index.
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
    """Return the condition on labels. The only place where the database reads them."""
    given["label"], value = label
    if value is not None:
        given["value"] = value
    if tx.dialect.name == "sqlite":
        same = "" if value is None else "AND value = :value"
        return f"EXISTS (SELECT 1 FROM json_each(labels) WHERE key = :label {same})"
    found = "CAST(labels AS jsonb) ->> CAST(:label AS text)"
    return f"{found} IS NOT NULL" if value is None else f"{found} = :value"


prepare_to_decode(Shown)
