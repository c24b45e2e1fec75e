"""The commit of a step: the most frequent transition, and the only one that commits many chats.

The statement that writes also checks the fence. On PostgreSQL the steps of many chats are one
statement, and a single message another one with plain values instead of arrays. On SQLite they
share a transaction, in which each statement is run for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

from msgspec import Struct

from holdfast.chat.message_rows import INSERT_MESSAGE, message_row
from holdfast.chat.rows import Fence
from holdfast.chat.spending_counters import (
    same_day,
    same_day_assignments,
    spend_assignments,
    spending_of,
    spending_params,
)
from holdfast.kernel.messages import Message, encode
from holdfast.store.database import Changed, Tx


class StepCommit(Struct, frozen=True, gc=False):
    """A step to be committed: its messages, and the fence that it started from."""

    fence: Fence
    messages: tuple[Message, ...]

    @property
    def chat(self) -> str:
        """Id of the chat."""
        return self.fence.chat


class Committed(Struct, frozen=True, gc=False):
    """The chat after the commit of a step."""

    version: int
    """Snapshot and history version after the commit."""
    messages: int
    """Number of the last message."""
    queue_version: int


class FenceLost(Struct, frozen=True):
    """The chat no longer matched the fence, so nothing was written."""


FENCE_LOST: Final = FenceLost()


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
            params = _step_params(items[0]) | _message_rows(items[0])[0]
            rows = await tx.fetch(_with_clock(COMMIT_ONE_MESSAGE, tx.dialect.now), params)
        else:
            rows = await tx.fetch(_with_clock(COMMIT_STEPS, tx.dialect.now), _array_params(items))
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
    now, params = tx.dialect.now, [_step_params(commit) for commit in commits]
    updated_rows = await tx.fetch_many(_with_clock(ADVANCE_CHAT, now), params)
    rows_by_chat = {row[0]: row for row in updated_rows}
    if len(rows_by_chat) < len(commits):
        others = [one for one in params if one["id"] not in rows_by_chat]
        first_rows = await tx.fetch_many(_with_clock(ADVANCE_CHAT_TO_NEW_DAY, now), others)
        rows_by_chat |= {row[0]: row for row in first_rows}
    outcomes: list[Committed | FenceLost] = []
    message_rows: list[dict[str, Any]] = []
    for commit in commits:
        chat = commit.fence.chat
        row = rows_by_chat.get(chat)
        if row is None:
            outcomes.append(FENCE_LOST)
            continue
        _, version, last_number, queue_version, now = row
        message_rows += _message_rows(commit, last_number, version, now)
        tx.notify(Changed(chat, version))
        outcomes.append(Committed(version, last_number, queue_version))
    await tx.execute_many(INSERT_MESSAGE, message_rows)
    return outcomes


def _step_params(commit: StepCommit) -> dict[str, Any]:
    """Return the parameters of a step, except its messages."""
    fence = commit.fence
    return {
        "id": fence.chat,
        "epoch": fence.epoch,
        "history_version": fence.history_version,
        "attempt": fence.attempt,
        "count": len(commit.messages),
        **spending_params(spending_of(commit.messages)),
    }


def _message_rows(
    commit: StepCommit, last_number: int = 0, version: int = 0, now: int = 0
) -> list[dict[str, Any]]:
    """Return the rows of the messages of a step, numbered up to `last_number`.

    The statements of PostgreSQL set number, version and time, and add the last number.
    """
    fence = commit.fence
    return [
        message_row(fence.chat, number, version, message, now, epoch=fence.epoch)
        for number, message in enumerate(commit.messages, last_number - len(commit.messages) + 1)
    ]


ADVANCE: Final = """
    UPDATE chats AS c
       SET snapshot_version = c.snapshot_version + 1, history_version = c.snapshot_version + 1,
           messages = c.messages + :count,
           attempt = 1, retry = NULL, retry_at = NULL, crashes = 0, updated_at = {now}, SPEND
     WHERE id = :id AND epoch = :epoch AND status = 'running' AND worker_id IS NOT NULL
       AND history_version = :history_version AND attempt = :attempt AND IS_DAY
    RETURNING id, snapshot_version, messages, queue_version, updated_at
    """
ADVANCE_CHAT: Final = ADVANCE.replace("SPEND", same_day_assignments("c.", ":")).replace(
    "IS_DAY", same_day("c.", "{now}")
)
"""Advances a chat of SQLite, whose messages are inserted separately."""
ADVANCE_CHAT_TO_NEW_DAY: Final = ADVANCE.replace(
    "SPEND", spend_assignments("c.", ":", "{now}")
).replace("AND IS_DAY", "")
"""The same for the first step of a chat on a day."""

# The statements for PostgreSQL return a row for each chat that they could lock, with a version if
# the step was committed. Without IS TRUE, and until it has statistics, PostgreSQL would search for
# these few chats among all running ones.

COMMIT_ONE_MESSAGE: Final = """
    WITH locked AS (
        SELECT id, {now} AS now FROM chats WHERE id = :id FOR NO KEY UPDATE SKIP LOCKED
    ), changed AS (
        UPDATE chats AS c
           SET snapshot_version = c.snapshot_version + 1, history_version = c.snapshot_version + 1,
               messages = c.messages + 1,
               attempt = 1, retry = NULL, retry_at = NULL, crashes = 0,
               updated_at = locked.now, SPEND
          FROM locked
         WHERE c.id = locked.id
           AND c.epoch = :epoch AND (c.status = 'running') IS TRUE AND c.worker_id IS NOT NULL
           AND c.history_version = :history_version AND c.attempt = :attempt
        RETURNING c.id, c.epoch, c.snapshot_version, c.messages, c.queue_version, c.updated_at
    ), added AS (
        INSERT INTO messages (chat_id, epoch, number, revision, created_at,
                              role, kind, visibility, body,
                              runtime, input, output, reasoning, cache_read, cache_write, cost)
        SELECT id, epoch, messages, snapshot_version, updated_at,
               :role, :kind, :visibility, :body,
               :runtime, :input, :output, :reasoning, :cache_read, :cache_write, :cost
          FROM changed
    )
    SELECT locked.id, changed.snapshot_version, changed.messages, changed.queue_version
      FROM locked LEFT JOIN changed ON changed.id = locked.id
    """.replace("SPEND", spend_assignments("c.", ":", "locked.now"))
"""Commits one step with one message. PostgreSQL plans and runs it faster than `COMMIT_STEPS`."""

COMMIT_STEPS: Final = """
    WITH locked AS (
        SELECT step.*, {now} AS now
          FROM chats c
          JOIN unnest(
                   CAST(:id AS text[]),
                   CAST(CAST(:epoch AS text) AS bigint[]),
                   CAST(CAST(:history_version AS text) AS bigint[]),
                   CAST(CAST(:attempt AS text) AS bigint[]),
                   CAST(CAST(:count AS text) AS bigint[]),
                   CAST(CAST(:steps AS text) AS bigint[]),
                   CAST(CAST(:tokens AS text) AS bigint[]),
                   CAST(CAST(:spent AS text) AS double precision[]),
                   CAST(CAST(:time AS text) AS bigint[]),
                   CAST(CAST(:unpriced AS text) AS bigint[])
               ) AS step (id, epoch, history_version, attempt, count,
                          steps, tokens, spent, time, unpriced) ON step.id = c.id
         ORDER BY c.id FOR NO KEY UPDATE OF c SKIP LOCKED
    ), changed AS (
        UPDATE chats AS c
           SET snapshot_version = c.snapshot_version + 1, history_version = c.snapshot_version + 1,
               messages = c.messages + step.count,
               attempt = 1, retry = NULL, retry_at = NULL, crashes = 0,
               updated_at = step.now, SPEND
          FROM locked step
         WHERE c.id = step.id
           AND c.epoch = step.epoch AND (c.status = 'running') IS TRUE AND c.worker_id IS NOT NULL
           AND c.history_version = step.history_version AND c.attempt = step.attempt
        RETURNING c.id, c.epoch, c.snapshot_version, c.messages, c.queue_version, c.updated_at
    ), added AS (
        INSERT INTO messages (chat_id, epoch, number, revision, created_at,
                              role, kind, visibility, body,
                              runtime, input, output, reasoning, cache_read, cache_write, cost)
        SELECT changed.id, changed.epoch, changed.messages + m.number, changed.snapshot_version,
               changed.updated_at, m.role, m.kind, m.visibility, m.body,
               m.runtime, m.input, m.output, m.reasoning, m.cache_read, m.cache_write, m.cost
          FROM unnest(
                   CAST(:chat_id AS text[]),
                   CAST(CAST(:number AS text) AS bigint[]),
                   CAST(CAST(:role AS text) AS text[]),
                   CAST(CAST(:kind AS text) AS text[]),
                   CAST(CAST(:visibility AS text) AS text[]),
                   CAST(:body AS text[]),
                   CAST(CAST(:runtime AS text) AS bigint[]),
                   CAST(CAST(:input AS text) AS bigint[]),
                   CAST(CAST(:output AS text) AS bigint[]),
                   CAST(CAST(:reasoning AS text) AS bigint[]),
                   CAST(CAST(:cache_read AS text) AS bigint[]),
                   CAST(CAST(:cache_write AS text) AS bigint[]),
                   CAST(CAST(:cost AS text) AS double precision[])
               ) AS m (chat_id, number, role, kind, visibility, body, runtime, input, output,
                       reasoning, cache_read, cache_write, cost)
          JOIN changed ON changed.id = m.chat_id
    )
    SELECT locked.id, changed.snapshot_version, changed.messages, changed.queue_version
      FROM locked LEFT JOIN changed ON changed.id = locked.id
    """.replace("SPEND", spend_assignments("c.", "step.", "step.now"))
"""Commits many steps. Each parameter is an array.

Most arrays are sent as text, which is much faster than sending many values. The number of a message
is relative to the last one of its step.
"""

QUOTED: Final = frozenset({"id", "chat_id", "body"})
"""Parameters whose values may need quotes in an array. The others are numbers and enum values."""
STEP_PARAMS: Final = (
    *("id", "epoch", "history_version", "attempt", "count"),
    *("steps", "tokens", "spent", "time", "unpriced"),
)
MESSAGE_PARAMS: Final = (
    *("chat_id", "number", "role", "kind", "visibility", "body", "runtime"),
    *("input", "output", "reasoning", "cache_read", "cache_write", "cost"),
)


def _array_params(commits: Sequence[StepCommit]) -> dict[str, Any]:
    """Return the parameters of `COMMIT_STEPS`: columns instead of rows."""
    steps = [_step_params(commit) for commit in commits]
    messages = [row for commit in commits for row in _message_rows(commit)]
    columns = {name: [row[name] for row in steps] for name in STEP_PARAMS}
    columns |= {name: [row[name] for row in messages] for name in MESSAGE_PARAMS}
    return {name: column if name in QUOTED else _array(column) for name, column in columns.items()}


def _array(values: Sequence[Any]) -> str:
    """Format an array in PostgreSQL's syntax: like JSON, but in braces, and without escapes."""
    return f"{{{encode(values)[1:-1].decode()}}}"


@lru_cache
def _with_clock(statement: str, now: str) -> str:
    return statement.format(now=now)
