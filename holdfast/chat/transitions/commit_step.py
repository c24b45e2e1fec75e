"""The commit of a step: the most frequent transition, and the only one that commits many chats.

The statement that writes also checks the fence. On PostgreSQL the steps of many chats are one
statement, and a single step is the same statement with plain values instead of arrays. On SQLite
they share a transaction, in which each statement is run for all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import chain
from operator import itemgetter
from typing import Any, Final

from msgspec import Struct

from holdfast.chat.row_lock import INSERT_MESSAGE, message_row
from holdfast.chat.rows import Fence
from holdfast.kernel.messages import Message, encode
from holdfast.store.database import Changed, Tx


class StepCommit(Struct, frozen=True):
    """A step to be committed: its messages, and the fence that it started from."""

    fence: Fence
    messages: tuple[Message, ...]

    @property
    def chat(self) -> str:
        """Id of the chat."""
        return self.fence.chat


class Committed(Struct, frozen=True):
    """The chat after the commit of a step."""

    version: int
    """Snapshot and history version after the commit."""
    messages: int
    """Number of the last message."""
    queue_version: int


class FenceLost(Struct, frozen=True):
    """The chat no longer matched the fence, so nothing was written."""


FENCE_LOST: Final = FenceLost()

ADVANCE: Final = """
    snapshot_version = c.snapshot_version + 1, history_version = c.snapshot_version + 1,
    attempt = 1, retry = NULL, retry_at = NULL, crashes = 0
    """


class _CommitStep:
    """The transition `commit step`, for one chat or for many."""

    async def alone(self, tx: Tx, item: StepCommit) -> Committed | FenceLost:
        (outcome,) = await _one_by_one(tx, (item,))
        return outcome

    async def together(
        self, tx: Tx, items: Sequence[StepCommit]
    ) -> Sequence[Committed | FenceLost | None]:
        if not tx.dialect.writes_in_with:
            return await _one_by_one(tx, items)
        if len(items) == 1 and len(items[0].messages) == 1:
            rows = await tx.fetch(of_one(tx.dialect.now), _params(items[0]))
        else:
            rows = await tx.fetch(of_many(tx.dialect.now), _array_params(items))
        outcomes: dict[str, Committed | FenceLost] = {}
        for chat, version, messages, queue_version in rows:
            if version is None:
                outcomes[chat] = FENCE_LOST
            else:
                outcomes[chat] = Committed(version, messages, queue_version)
                tx.notify(Changed(chat, version))
        # A chat that was not locked is committed alone; if it was deleted, that returns FenceLost.
        return [outcomes.get(commit.chat) for commit in items]


COMMIT_STEP: Final = _CommitStep()


async def _one_by_one(tx: Tx, commits: Sequence[StepCommit]) -> list[Committed | FenceLost]:
    """Run one statement for each chat, and one for each of its messages."""
    updated_rows = await tx.fetch_many(
        of_chat(tx.dialect.now), [_chat_params(commit) for commit in commits]
    )
    rows_by_chat = {row[0]: row for row in updated_rows}
    outcomes: list[Committed | FenceLost] = []
    rows: list[dict[str, Any]] = []
    for commit in commits:
        row = rows_by_chat.get(commit.fence.chat)
        if row is None:
            outcomes.append(FENCE_LOST)
            continue
        _, version, last_number, queue_version, now = row
        number = last_number - len(commit.messages)
        for message in commit.messages:
            number += 1
            rows.append(_row(commit, number, version, message, now))
        tx.notify(Changed(commit.fence.chat, version))
        outcomes.append(Committed(version, last_number, queue_version))
    await tx.execute_many(INSERT_MESSAGE, rows)
    return outcomes


def _chat_params(commit: StepCommit) -> dict[str, Any]:
    """Return the parameters of `of_chat`."""
    fence = commit.fence
    return {
        "id": fence.chat,
        "epoch": fence.epoch,
        "history_version": fence.history_version,
        "attempt": fence.attempt,
        "count": len(commit.messages),
    }


def _row(
    commit: StepCommit, number: int, version: int, message: Message, now: int
) -> dict[str, Any]:
    fence = commit.fence
    return message_row(fence.chat, number, version, message, now, epoch=fence.epoch)


STEP_COLUMNS: Final = {
    "id": "text",
    "epoch": "bigint",
    "history_version": "bigint",
    "attempt": "bigint",
    "count": "bigint",
}
"""Columns of a step in the statement: names and types."""
MESSAGE_COLUMNS: Final = {
    "chat_id": "text",
    "back": "bigint",
    "role": "text",
    "kind": "text",
    "visibility": "text",
    "body": "text",
    "runtime": "bigint",
    "input": "bigint",
    "output": "bigint",
    "reasoning": "bigint",
    "cache_read": "bigint",
    "cache_write": "bigint",
    "cost": "double precision",
}
"""Columns of a message in the statement. `back` is the number of later messages in its step."""
STEP_PARAMS: Final = tuple(f"i_{name}" for name in STEP_COLUMNS)
MESSAGE_PARAMS: Final = tuple(f"m_{name}" for name in MESSAGE_COLUMNS)
PARAMS: Final = STEP_PARAMS + MESSAGE_PARAMS
TEXT_COLUMNS: Final = frozenset({"id", "chat_id", "body"})
"""Columns whose values may need quotes in an array. The others are numbers and enum values."""
COPIED_COLUMNS: Final = tuple(name for name in MESSAGE_COLUMNS if name not in ("chat_id", "back"))
"""Columns of a message that are stored unchanged."""
copied_values: Final = itemgetter(*COPIED_COLUMNS)


@lru_cache
def of_chat(now: str) -> str:
    """Return the statement that advances a chat; its messages are inserted separately."""
    return f"""
    UPDATE chats AS c
       SET {ADVANCE}, messages = c.messages + :count, updated_at = {now}
     WHERE id = :id AND epoch = :epoch AND status = 'running' AND worker_id IS NOT NULL
       AND history_version = :history_version AND attempt = :attempt
    RETURNING id, snapshot_version, messages, queue_version, updated_at
    """


@lru_cache
def of_one(now: str) -> str:
    """Return the statement for one step with one message: PostgreSQL plans and runs it faster."""
    return _statement(_plain("i", STEP_COLUMNS), _plain("m", MESSAGE_COLUMNS), now)


@lru_cache
def of_many(now: str) -> str:
    """Return the statement for many steps: each parameter is an array."""
    return _statement(_unnested("i", STEP_COLUMNS), _unnested("m", MESSAGE_COLUMNS), now)


def _plain(table: str, columns: Mapping[str, str]) -> str:
    values = (f"CAST(:{table}_{name} AS {type}) AS {name}" for name, type in columns.items())
    return f"(SELECT {', '.join(values)}) AS {table}"


def _unnested(table: str, columns: Mapping[str, str]) -> str:
    def array(name: str, type: str) -> str:
        param = f":{table}_{name}" if name in TEXT_COLUMNS else f"CAST(:{table}_{name} AS text)"
        return f"CAST({param} AS {type}[])"

    arrays = ", ".join(array(name, type) for name, type in columns.items())
    return f"unnest({arrays}) AS {table} ({', '.join(columns)})"


def _statement(steps: str, messages: str, now: str) -> str:
    """Return the statement for the tables of steps `i` and messages `m`.

    It returns a row for each chat that it could lock, with a version if the step was committed.
    """
    # Without IS TRUE, and until it has statistics, PostgreSQL searches for these few chats among
    # all running ones.
    return f"""
    WITH locked AS (
        SELECT {", ".join(f"i.{name}" for name in STEP_COLUMNS)}
          FROM chats c JOIN {steps} ON i.id = c.id
         ORDER BY c.id FOR NO KEY UPDATE OF c SKIP LOCKED
    ), changed AS (
        UPDATE chats AS c
           SET {ADVANCE}, messages = c.messages + i.count, updated_at = {now}
          FROM locked i
         WHERE c.id = i.id
           AND c.epoch = i.epoch AND (c.status = 'running') IS TRUE AND c.worker_id IS NOT NULL
           AND c.history_version = i.history_version AND c.attempt = i.attempt
        RETURNING c.id, c.epoch, c.snapshot_version, c.messages, c.queue_version, c.updated_at
    ), added AS (
        INSERT INTO messages (chat_id, epoch, number, revision, created_at,
                              {", ".join(COPIED_COLUMNS)})
        SELECT changed.id, changed.epoch, changed.messages - m.back, changed.snapshot_version,
               changed.updated_at, {", ".join(f"m.{name}" for name in COPIED_COLUMNS)}
          FROM {messages} JOIN changed ON changed.id = m.chat_id
    )
    SELECT locked.id, changed.snapshot_version, changed.messages, changed.queue_version
      FROM locked LEFT JOIN changed ON changed.id = locked.id
    """


def _params(commit: StepCommit) -> dict[str, Any]:
    (message,) = commit.messages
    return dict(
        zip(PARAMS, _step_values(commit) + _message_values(commit, 0, message), strict=True)
    )


def _array_params(commits: Sequence[StepCommit]) -> dict[str, Any]:
    """Return the parameters of `of_many`: columns instead of rows."""
    messages = [
        _message_values(commit, len(commit.messages) - index, message)
        for commit in commits
        for index, message in enumerate(commit.messages, start=1)
    ]
    columns = chain(zip(*map(_step_values, commits), strict=True), zip(*messages, strict=True))
    names = chain(STEP_COLUMNS, MESSAGE_COLUMNS)
    return {
        param: column if name in TEXT_COLUMNS else _array(column)
        for param, name, column in zip(PARAMS, names, columns, strict=True)
    }


def _array(values: Sequence[Any]) -> str:
    """Format an array in PostgreSQL's syntax: like JSON, but in braces. No value needs an escape.

    One text is sent much faster than many values.
    """
    return f"{{{encode(values)[1:-1].decode()}}}"


def _step_values(commit: StepCommit) -> tuple[Any, ...]:
    """Return a row of `STEP_COLUMNS`."""
    fence = commit.fence
    return fence.chat, fence.epoch, fence.history_version, fence.attempt, len(commit.messages)


def _message_values(commit: StepCommit, back: int, message: Message) -> tuple[Any, ...]:
    """Return a row of `MESSAGE_COLUMNS`."""
    row = _row(commit, 0, 0, message, 0)
    return commit.fence.chat, back, *copied_values(row)
