"""Queries on chats: history, changes, pages, usage. Nothing here writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, Final

from msgspec import Struct

from holdfast.chat.errors import ChatNotFound
from holdfast.chat.journal import read_journal
from holdfast.chat.queue import read_queue
from holdfast.chat.row_lock import read_chat
from holdfast.chat.rows import (
    NAMES,
    SELECT_CHAT,
    SELECT_MESSAGE,
    Call,
    Chat,
    Partial,
    Queued,
    Stored,
    chat_of,
    document,
    stored_of,
)
from holdfast.kernel.messages import Message, Usage
from holdfast.store.database import Row, Tx


class Loaded(Struct, frozen=True):
    """Everything that a runner starts from, on one snapshot."""

    chat: Chat
    history: tuple[Stored, ...]
    queue: tuple[Queued, ...]
    journal: dict[str, Call]
    partial: Partial | None
    now: int
    void: frozenset[str] = frozenset()
    """Ids of superseded calls, which must not be reused."""
    known: bool = False
    """The caller's history is current, so it was not read."""
    begun: bool = False
    """There is a partial answer, of this attempt or of an earlier one."""


async def load(tx: Tx, chat_id: str, known: int | None = None) -> Loaded:
    """Load a chat for its runner, which has the history of version `known`.

    Most chats have no queue, journal or partial answer: the first query reports what else to read.
    """
    row = await tx.one(
        f"""
        SELECT {tx.dialect.now}, {", ".join(NAMES)},
               EXISTS (SELECT 1 FROM queue WHERE chat_id = :id),
               EXISTS (SELECT 1 FROM tool_calls WHERE chat_id = :id),
               EXISTS (SELECT 1 FROM partials WHERE chat_id = :id)
          FROM chats WHERE id = :id
        """,
        {"id": chat_id},
    )
    if row is None:
        raise ChatNotFound(chat_id)
    now, *columns, queued, called, begun = row
    chat = chat_of(columns)
    changed = chat.history_version != known
    return Loaded(
        chat,
        tuple(await read_history(tx, chat_id)) if changed else (),
        tuple(await read_queue(tx, chat_id)) if queued else (),
        await read_journal(tx, chat_id) if called else {},
        await read_partial(tx, chat_id) if begun else None,
        now,
        await _void_calls(tx, chat_id) if changed and called else frozenset(),
        known=not changed,
        begun=bool(begun),
    )


async def _void_calls(tx: Tx, chat_id: str) -> frozenset[str]:
    rows = await tx.fetch(
        """
        SELECT t.call_id FROM tool_calls t
         WHERE t.chat_id = :id
           AND EXISTS (SELECT 1 FROM messages m
                        WHERE m.chat_id = :id AND m.number = t.number
                          AND m.superseded_at IS NOT NULL)
        """,
        {"id": chat_id},
    )
    return frozenset(row[0] for row in rows)


async def read_history(tx: Tx, chat_id: str, after: int = 0) -> list[Stored]:
    """Read the live messages after number `after`, in order."""
    rows = await tx.fetch(
        f"""
        {SELECT_MESSAGE}
         WHERE chat_id = :id AND number > :after AND superseded_at IS NULL ORDER BY number
        """,
        {"id": chat_id, "after": after},
    )
    return [stored_of(chat_id, row) for row in rows]


async def read_partial(tx: Tx, chat_id: str) -> Partial | None:
    """Read the partial answer of the current attempt; those of earlier attempts are ignored."""
    row = await tx.one(
        """
        SELECT p.epoch, p.history_version, p.attempt, p.seq, p.body
          FROM partials p JOIN chats c ON c.id = p.chat_id
         WHERE p.chat_id = :id AND p.history_version = c.history_version AND p.attempt = c.attempt
        """,
        {"id": chat_id},
    )
    if row is None:
        return None
    epoch, version, attempt, seq, body = row
    return Partial(epoch, version, attempt, seq, document(chat_id, "partial answer", body, Message))


class Changes(Struct, frozen=True):
    """The changes of a chat since a snapshot."""

    chat: Chat
    messages: tuple[Stored, ...]
    """Messages added or superseded since, in order of their numbers."""
    queue: tuple[Queued, ...] | None
    """The queue; None when it did not change."""
    actions: tuple[Call, ...]


async def changes(
    tx: Tx, chat_id: str, since: int, limit: int = 500, size: int | None = None
) -> Changes | None:
    """Read what changed after snapshot `since`.

    None when more than `limit` messages changed, or several messages with more than `size`
    characters in total.
    """
    chat = await read_chat(tx, chat_id)
    rows: Sequence[Any] = ()
    if chat.history_version > since:
        rows = await tx.fetch(
            f"""
            {SELECT_MESSAGE}
             WHERE chat_id = :id AND revision > :since ORDER BY number LIMIT :limit
            """,
            {"id": chat_id, "since": since, "limit": limit + 1},
        )
    if len(rows) > limit or (size is not None and fitting(_told(rows), size) < len(rows)):
        return None
    return Changes(
        chat,
        tuple(stored_of(chat_id, row) for row in rows),
        tuple(await read_queue(tx, chat_id)) if chat.queue_version > since else None,
        tuple(await read_actions(tx, chat_id)),
    )


def _told(rows: Sequence[Row]) -> Iterator[int]:
    """Return the length of each message in characters. A superseded message counts nothing."""
    return (len(body) if gone is None else 0 for _, _, body, _, _, gone, _ in rows)


async def read_messages(
    tx: Tx,
    chat_id: str,
    *,
    before: int | None = None,
    after: int = 0,
    limit: int = 100,
    superseded: bool = False,
    oldest: bool = False,
) -> list[Stored]:
    """Read a page in order: the newest messages before `before`, or the oldest after `after`."""
    place, given = _nearest(chat_id, before, after, limit, superseded, oldest)
    rows = await tx.fetch(f"{SELECT_MESSAGE} {place}", given)
    return [stored_of(chat_id, row) for row in (rows if oldest else reversed(rows))]


async def read_page(
    tx: Tx,
    chat_id: str,
    limit: int,
    size: int,
    *,
    before: int | None = None,
    after: int | None = None,
    superseded: bool = False,
) -> tuple[tuple[Stored, ...], bool]:
    """Read a page of at most `size` bytes but at least one message, and whether there are more.

    Reads forwards when `after` is given. Messages that do not fit are not read.
    """
    oldest = after is not None
    place, given = _nearest(chat_id, before, after or 0, limit + 1, superseded, oldest)
    # Neither database reads a text to find its length in bytes.
    near = await tx.fetch(f"SELECT number, octet_length(body) FROM messages {place}", given)
    count = fitting((length for _, length in near[:limit]), size)
    if not count:
        return (), False
    rows = await tx.fetch(f"{SELECT_MESSAGE} {place}", {**given, "limit": count})
    page = rows if oldest else reversed(rows)
    return tuple(stored_of(chat_id, row) for row in page), count < len(near)


def _nearest(
    chat_id: str,
    before: int | None,
    after: int,
    limit: int,
    superseded: bool,
    oldest: bool,
) -> tuple[str, dict[str, Any]]:
    """Return the query for the nearest messages, nearest first, and its parameters."""
    place = f"""
         WHERE chat_id = :id AND number > :after
           {"" if before is None else "AND number < :before"}
           {"" if superseded else "AND superseded_at IS NULL"}
         ORDER BY number {"" if oldest else "DESC"} LIMIT :limit
        """
    given = {"id": chat_id, "after": after, "limit": limit}
    return place, given if before is None else {**given, "before": before}


def fitting(lengths: Iterable[int], size: int) -> int:
    """Return how many of the first items fit into `size` in total. The first always fits."""
    return sum(place == 0 or end <= size for place, end in enumerate(accumulate(lengths)))


async def read_actions(tx: Tx, chat_id: str) -> list[Call]:
    """Read the calls that wait for an answer from outside, oldest message first."""
    known = await read_journal(tx, chat_id)
    waiting = [call for call in known.values() if call.state == "waiting"]
    return sorted(waiting, key=lambda call: (call.number, call.call_id))


async def list_chats(
    tx: Tx,
    *,
    owner: str | None = None,
    parent: str | None = None,
    archived: bool = False,
    before: str | None = None,
    limit: int = 100,
) -> list[Chat]:
    """Read chats, newest first. `before` is the id of the last one seen."""
    conditions = {
        "owner": "owner = :owner",
        "parent": "parent_id = :parent",
        "before": "id < :before",
    }
    given = {"owner": owner, "parent": parent, "before": before}
    chosen = {name: value for name, value in given.items() if value is not None}
    where = [conditions[name] for name in chosen]
    where.append(f"archived = {int(archived)}")
    if parent is None:
        where.append("parent_id IS NULL")
    rows = await tx.fetch(
        f"{SELECT_CHAT} WHERE {' AND '.join(where)} ORDER BY id DESC LIMIT :limit",
        {**chosen, "limit": limit},
    )
    return [chat_of(row) for row in rows]


async def unnamed(tx: Tx, agents: Sequence[str], since: int, limit: int) -> list[Chat]:
    """Read idle chats of these agents without a title by a person or a model, newest first.

    Only chats whose last change was at `since` or later.
    """
    rows = await tx.fetch(
        f"""
        {SELECT_CHAT}
         WHERE titled_by IS NULL AND status = 'idle' AND archived = 0 AND parent_id IS NULL
           AND outcome IS NOT NULL AND updated_at >= :since
           AND {tx.dialect.one_of("agent", "agents")}
         ORDER BY updated_at DESC, id LIMIT :limit
        """,
        {"agents": list(agents), "since": since, "limit": limit},
    )
    return [chat_of(row) for row in rows]


class Spent(Struct, frozen=True):
    """Usage of answers, failed attempts, titles and summaries."""

    usage: Usage
    calls: int
    """Number of model calls that reported usage."""
    unpriced: int
    """Number of these calls without a known price; `usage.cost` does not include them."""


BELOW: Final = """
    WITH RECURSIVE below (id) AS (
        SELECT id FROM chats WHERE id = :id
        UNION ALL SELECT c.id FROM chats c JOIN below b ON c.parent_id = b.id
    )
    SELECT id FROM below
    """


async def spent(tx: Tx, chat_id: str, *, tree: bool = False) -> Spent:
    """Sum usage and cost of a chat, or of the chat and every chat below it."""
    scope = f"IN ({BELOW})" if tree else "= :id"
    columns = "input, output, reasoning, cache_read, cache_write, cost"
    row = await tx.one(
        f"""
        SELECT COALESCE(sum(input), 0), COALESCE(sum(output), 0), COALESCE(sum(reasoning), 0),
               COALESCE(sum(cache_read), 0), COALESCE(sum(cache_write), 0), sum(cost), count(*),
               count(*) - count(cost)
          FROM (SELECT {columns} FROM messages WHERE chat_id {scope} AND input IS NOT NULL
                UNION ALL SELECT {columns} FROM usage WHERE chat_id {scope}) AS counted
        """,
        {"id": chat_id},
    )
    assert row is not None
    *tokens, cost, calls, unpriced = row
    input, output, reasoning, cache_read, cache_write = (int(count) for count in tokens)
    used = Usage(input, output, reasoning, cache_read, cache_write, cost)
    return Spent(used, calls, unpriced)
