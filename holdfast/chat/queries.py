"""Queries on chats: history, changes, pages, usage. None of them writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, Final

from msgspec import Struct

from holdfast.chat.errors import ChatNotFound
from holdfast.chat.journal import read_journal
from holdfast.chat.queue import read_queue
from holdfast.chat.rows import (
    CHAT_COLUMNS,
    SELECT_CHAT,
    SELECT_MESSAGE,
    ChatRow,
    JournalCall,
    Partial,
    Queued,
    Stored,
    chat_of,
    document,
    read_chat,
    stored_of,
)
from holdfast.kernel.messages import Message, Usage
from holdfast.store.database import Row, Tx


class Loaded(Struct, frozen=True):
    """The state that a runner starts from, on one snapshot."""

    chat: ChatRow
    history: tuple[Stored, ...]
    queue: tuple[Queued, ...]
    journal: dict[str, JournalCall]
    partial: Partial | None
    now: int
    void: frozenset[str] = frozenset()
    """Ids of superseded calls, which must not be reused."""
    known: bool = False
    """Whether the caller's history is current, so that it was not read."""
    has_partial: bool = False
    """Whether there is a partial answer, of this attempt or of an earlier one."""


async def load(tx: Tx, chat_id: str, known_version: int | None = None) -> Loaded:
    """Load a chat for its runner, which already has the history of version `known_version`.

    Most chats have no queue, journal or partial answer: the first query finds out what to read.
    """
    row = await tx.one(
        f"""
        SELECT {tx.dialect.now}, {", ".join(CHAT_COLUMNS)},
               EXISTS (SELECT 1 FROM queue WHERE chat_id = :id),
               EXISTS (SELECT 1 FROM tool_calls WHERE chat_id = :id),
               EXISTS (SELECT 1 FROM partials WHERE chat_id = :id)
          FROM chats WHERE id = :id
        """,
        {"id": chat_id},
    )
    if row is None:
        raise ChatNotFound(chat_id)
    now, *columns, has_queue, has_calls, has_partial = row
    chat = chat_of(columns)
    history_changed = chat.history_version != known_version
    return Loaded(
        chat,
        tuple(await read_history(tx, chat_id)) if history_changed else (),
        tuple(await read_queue(tx, chat_id)) if has_queue else (),
        await read_journal(tx, chat_id) if has_calls else {},
        await read_partial(tx, chat_id) if has_partial else None,
        now,
        await _void_calls(tx, chat_id) if history_changed and has_calls else frozenset(),
        known=not history_changed,
        has_partial=bool(has_partial),
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

    chat: ChatRow
    messages: tuple[Stored, ...]
    """Messages added or superseded since, in order of their numbers."""
    queue: tuple[Queued, ...] | None
    """The queue; None when it did not change."""
    actions: tuple[JournalCall, ...]


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
    if len(rows) > limit or (size is not None and fitting(_lengths(rows), size) < len(rows)):
        return None
    return Changes(
        chat,
        tuple(stored_of(chat_id, row) for row in rows),
        tuple(await read_queue(tx, chat_id)) if chat.queue_version > since else None,
        tuple(await read_actions(tx, chat_id)),
    )


def _lengths(rows: Sequence[Row]) -> Iterator[int]:
    """Return the length of each message in characters; 0 for a superseded message."""
    return (
        len(body) if superseded_at is None else 0 for _, _, body, _, _, superseded_at, _ in rows
    )


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
    clause, params = _nearest(chat_id, before, after, limit, superseded, oldest)
    rows = await tx.fetch(f"{SELECT_MESSAGE} {clause}", params)
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
    """Read a page of messages, and whether there are more.

    A page has at most `size` bytes, but at least one message; messages that do not fit are not
    read. Reads forwards if `after` is given.
    """
    oldest = after is not None
    clause, params = _nearest(chat_id, before, after or 0, limit + 1, superseded, oldest)
    # Neither database reads a text to find its length in bytes.
    lengths = await tx.fetch(f"SELECT number, octet_length(body) FROM messages {clause}", params)
    count = fitting((length for _, length in lengths[:limit]), size)
    if not count:
        return (), False
    rows = await tx.fetch(f"{SELECT_MESSAGE} {clause}", {**params, "limit": count})
    page = rows if oldest else reversed(rows)
    return tuple(stored_of(chat_id, row) for row in page), count < len(lengths)


def _nearest(
    chat_id: str,
    before: int | None,
    after: int,
    limit: int,
    superseded: bool,
    oldest: bool,
) -> tuple[str, dict[str, Any]]:
    """Return the query for the nearest messages, nearest first, and its parameters."""
    clause = f"""
         WHERE chat_id = :id AND number > :after
           {"" if before is None else "AND number < :before"}
           {"" if superseded else "AND superseded_at IS NULL"}
         ORDER BY number {"" if oldest else "DESC"} LIMIT :limit
        """
    params = {"id": chat_id, "after": after, "limit": limit}
    return clause, params if before is None else {**params, "before": before}


def fitting(lengths: Iterable[int], size: int) -> int:
    """Return how many of the first items have at most `size` in total; at least one."""
    return sum(index == 0 or total <= size for index, total in enumerate(accumulate(lengths)))


async def read_actions(tx: Tx, chat_id: str) -> list[JournalCall]:
    """Read the calls that wait for an answer from outside, oldest message first."""
    journal = await read_journal(tx, chat_id)
    waiting = [call for call in journal.values() if call.state == "waiting"]
    return sorted(waiting, key=lambda call: (call.number, call.call_id))


async def list_chats(
    tx: Tx,
    *,
    owner: str | None = None,
    parent: str | None = None,
    archived: bool = False,
    before: str | None = None,
    limit: int = 100,
) -> list[ChatRow]:
    """Read chats, newest first. `before` is the id of the last one seen."""
    conditions = {
        "owner": "owner = :owner",
        "parent": "parent_id = :parent",
        "before": "id < :before",
    }
    filters = {"owner": owner, "parent": parent, "before": before}
    params = {name: value for name, value in filters.items() if value is not None}
    where = [conditions[name] for name in params]
    where.append(f"archived = {int(archived)}")
    if parent is None:
        where.append("parent_id IS NULL")
    rows = await tx.fetch(
        f"{SELECT_CHAT} WHERE {' AND '.join(where)} ORDER BY id DESC LIMIT :limit",
        {**params, "limit": limit},
    )
    return [chat_of(row) for row in rows]


async def without_title(tx: Tx, agents: Sequence[str], since: int, limit: int) -> list[ChatRow]:
    """Read idle chats of these agents without a final title, newest first.

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


SUBTREE: Final = """
    WITH RECURSIVE below (id) AS (
        SELECT id FROM chats WHERE id = :id
        UNION ALL SELECT c.id FROM chats c JOIN below b ON c.parent_id = b.id
    )
    SELECT id FROM below
    """


async def spent(tx: Tx, chat_id: str, *, tree: bool = False) -> Spent:
    """Sum usage and cost of a chat, or of the chat and every chat below it."""
    scope = f"IN ({SUBTREE})" if tree else "= :id"
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
    usage = Usage(input, output, reasoning, cache_read, cache_write, cost)
    return Spent(usage, calls, unpriced)
