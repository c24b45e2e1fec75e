"""The list of chats for one reader: filters, order, pages, and the contents of each row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from msgspec import Struct, structs

from holdfast.chat import search
from holdfast.chat.read_marks import NO_MARKS, Marks, read_marks, shared_with
from holdfast.chat.rows import SELECT_CHAT, ChatRow, Status, chat_of, document
from holdfast.chat.search import Match, TextQuery
from holdfast.chat.snapshots import (
    Snapshot,
    StrandedLimits,
    read_context,
    read_interrupted,
    snapshot_of,
    snapshots,
)
from holdfast.kernel.messages import Message, prepare_to_decode
from holdfast.store.database import Tx

OPENING_LENGTH: Final = 80
"""Maximum length in characters of a chat's opening words."""


class ReaderChat(Snapshot, frozen=True, kw_only=True):
    """A chat with the state that is specific to one reader."""

    read: int = 0
    """Number of the last message that the person has read."""
    unread: bool = False
    """Whether there is an answer after the last message that was read."""
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


def for_reader(
    chat: Snapshot,
    marks: Marks = NO_MARKS,
    opening: str | None = None,
    matches: tuple[Match, ...] = (),
) -> ReaderChat:
    """Combine a snapshot with a reader's marks, opening words and search matches."""
    return ReaderChat(
        **structs.asdict(chat), **structs.asdict(marks), opening=opening, matches=matches
    )


async def read_openings(tx: Tx, chats: Sequence[ChatRow]) -> dict[str, str]:
    """Read the opening words of those chats that have no title."""
    untitled_ids = [chat.id for chat in chats if chat.title is None]
    if not untitled_ids:
        return {}
    rows = await tx.fetch(
        f"""
        SELECT id, (SELECT body FROM messages m
                     WHERE m.chat_id = c.id AND kind = 'prompt' AND superseded_at IS NULL
                     ORDER BY number LIMIT 1)
          FROM chats c WHERE {tx.dialect.one_of("id", "ids")}
        """,
        {"ids": untitled_ids},
    )
    texts = {id: document(id, "message", body, Message).text for id, body in rows if body}
    return {id: words for id, text in texts.items() if (words := _first_words(text))}


def _first_words(text: str) -> str:
    words = " ".join(text[: 4 * OPENING_LENGTH].split())
    return words if len(words) <= OPENING_LENGTH else words[: OPENING_LENGTH - 1].rstrip() + "…"


async def read_for_reader(
    tx: Tx, reader: str, row: ChatRow, limits: StrandedLimits | None = None
) -> ReaderChat:
    """Read one chat for one reader, with fields that lists omit.

    With `limits`, the result tells whether the chat is stranded or was interrupted by a restart.
    """
    chat = snapshot_of(row) if limits is None else (await snapshots(tx, [row], limits))[0]
    chat = structs.replace(
        chat,
        context=await read_context(tx, row.id),
        partial=None if limits is None else await read_interrupted(tx, row, limits),
    )
    opening = (await read_openings(tx, [row])).get(row.id)
    return for_reader(chat, (await read_marks(tx, reader, [row]))[row.id], opening)


class ChatFilter(Struct, frozen=True, kw_only=True):
    """Filter on the chats that a person may read."""

    reader: str
    shared: bool | None = None
    """True selects chats shared by others, False the person's own, None both."""
    parent: str | None = None
    """Id of a chat whose children are selected; None selects root chats and shared chats."""
    archived: bool = False
    status: Status | None = None
    agent: str | None = None
    label: tuple[str, str | None] | None = None
    """Name of a label and its value; None for any value."""
    pinned: bool | None = None
    search: TextQuery | None = None
    before: str | None = None
    """Id of the last chat seen."""
    limit: int = 50


async def list_for_reader(tx: Tx, filter: ChatFilter, limits: StrandedLimits) -> list[ReaderChat]:
    """Read a page of chats, newest first."""
    where, params = _where(tx, filter)
    # One page per source, so that each is read in the order of its index.
    pages = [
        f"""
        SELECT id FROM (SELECT id FROM chats WHERE {" AND ".join((source, *where))}
                         ORDER BY id DESC LIMIT :limit) AS page
        """
        for source in _sources(tx, filter)
    ]
    rows = await tx.fetch(
        f"{SELECT_CHAT} WHERE id IN ({'UNION ALL'.join(pages)}) ORDER BY id DESC LIMIT :limit",
        {**params, "limit": filter.limit},
    )
    chats = [chat_of(row) for row in rows]
    marks = await read_marks(tx, filter.reader, chats)
    openings = await read_openings(tx, chats)
    matches: dict[str, tuple[Match, ...]] = {}
    if filter.search is not None and chats:
        matches = await search.matches(tx, [chat.id for chat in chats], filter.search)
    return [
        for_reader(chat, marks[chat.id], openings.get(chat.id), matches.get(chat.id, ()))
        for chat in await snapshots(tx, chats, limits)
    ]


def _sources(tx: Tx, filter: ChatFilter) -> Iterator[str]:
    parent_condition = "parent_id = :parent" if filter.parent is not None else None
    if filter.shared is not True:
        yield f"owner = :reader AND {parent_condition or 'parent_id IS NULL'}"
    if filter.shared is not False:
        yield f"owner <> :reader AND {parent_condition or f'id IN ({shared_with(tx)})'}"


def _where(tx: Tx, filter: ChatFilter) -> tuple[list[str], dict[str, Any]]:
    params: dict[str, Any] = {"reader": filter.reader}
    where = [f"archived = {int(filter.archived)}"]
    if filter.parent is not None:
        params["parent"] = filter.parent
    for name, column in (("status", "status"), ("agent", "agent")):
        if (value := getattr(filter, name)) is not None:
            params[name] = str(value)
            where.append(f"{column} = :{name}")
    if filter.before is not None:
        params["before"] = filter.before
        where.append("id < :before")
    if filter.pinned is not None:
        pins = "SELECT chat_id FROM marks WHERE reader = :reader AND pinned = 1"
        where.append(f"id {'IN' if filter.pinned else 'NOT IN'} ({pins})")
    if filter.label is not None:
        where.append(_label_condition(tx, filter.label, params))
    if filter.search is not None:
        matching, search_params = search.condition(tx, filter.search)
        params |= search_params
        where.append(f"id IN (SELECT p.chat_id FROM passages p WHERE {matching})")
    return where, params


def _label_condition(tx: Tx, label: tuple[str, str | None], params: dict[str, Any]) -> str:
    """Return the condition on labels. The only place where the database reads them."""
    params["label"], value = label
    if value is not None:
        params["value"] = value
    if tx.dialect.name == "sqlite":
        has_value = "" if value is None else "AND value = :value"
        return f"EXISTS (SELECT 1 FROM json_each(labels) WHERE key = :label {has_value})"
    value_of_label = "CAST(labels AS jsonb) ->> CAST(:label AS text)"
    return f"{value_of_label} IS NOT NULL" if value is None else f"{value_of_label} = :value"


prepare_to_decode(ReaderChat)
