"""Committing a step: the most frequent transition, and the only one with a form for many chats.

The condition of the fence is part of the statement that writes. On PostgreSQL many steps of
different chats are one statement, and one step is the same statement with plain values instead of
arrays; on SQLite they share a transaction, in which each statement is run for all of them.
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


class Step(Struct, frozen=True):
    """Messages to be committed by a runner that still owns its chat."""

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


class Lost(Struct, frozen=True):
    """The fence did not hold: nothing was written."""


LOST: Final = Lost()

ADVANCE: Final = """
    snapshot_version = c.snapshot_version + 1, history_version = c.snapshot_version + 1,
    attempt = 1, retry = NULL, retry_at = NULL, crashes = 0
    """


class _CommitStep:
    """The transition `commit step`, for one chat or for many."""

    async def alone(self, tx: Tx, step: Step) -> Committed | Lost:
        (outcome,) = await _one_by_one(tx, (step,))
        return outcome

    async def together(self, tx: Tx, many: Sequence[Step]) -> Sequence[Committed | Lost | None]:
        if not tx.dialect.writes_in_with:
            return await _one_by_one(tx, many)
        if len(many) == 1 and len(many[0].messages) == 1:
            rows = await tx.fetch(of_one(tx.dialect.now), _values(many[0]))
        else:
            rows = await tx.fetch(of_many(tx.dialect.now), _arrays(many))
        outcomes: dict[str, Committed | Lost] = {}
        for chat, version, messages, queue_version in rows:
            if version is None:
                outcomes[chat] = LOST
            else:
                outcomes[chat] = Committed(version, messages, queue_version)
                tx.tell(Changed(chat, version))
        # A deleted chat was not locked, and runs alone, where it is found to be lost.
        return [outcomes.get(step.chat) for step in many]


COMMIT_STEP: Final = _CommitStep()


async def _one_by_one(tx: Tx, many: Sequence[Step]) -> list[Committed | Lost]:
    """Run a statement for each chat, and one for each of its messages."""
    found = await tx.fetch_many(of_chat(tx.dialect.now), [_fenced(step) for step in many])
    changed = {row[0]: row for row in found}
    outcomes: list[Committed | Lost] = []
    rows: list[dict[str, Any]] = []
    for step in many:
        row = changed.get(step.fence.chat)
        if row is None:
            outcomes.append(LOST)
            continue
        _, version, last, queue_version, now = row
        number = last - len(step.messages)
        for message in step.messages:
            number += 1
            rows.append(_row(step, number, version, message, now))
        tx.tell(Changed(step.fence.chat, version))
        outcomes.append(Committed(version, last, queue_version))
    await tx.execute_many(INSERT_MESSAGE, rows)
    return outcomes


def _fenced(step: Step) -> dict[str, Any]:
    """Return the parameters of `of_chat`."""
    fence = step.fence
    return {
        "id": fence.chat,
        "epoch": fence.epoch,
        "history_version": fence.history_version,
        "attempt": fence.attempt,
        "count": len(step.messages),
    }


def _row(step: Step, number: int, version: int, message: Message, now: int) -> dict[str, Any]:
    fence = step.fence
    return message_row(fence.chat, number, version, message, now, epoch=fence.epoch)


STEPS: Final = {
    "id": "text",
    "epoch": "bigint",
    "history_version": "bigint",
    "attempt": "bigint",
    "count": "bigint",
}
"""Columns of a step in the statement: names and types."""
MESSAGES: Final = {
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
"""Columns of a message in the statement. `back`: how many messages of its step follow it."""
STEP_PARAMS: Final = tuple(f"i_{name}" for name in STEPS)
MESSAGE_PARAMS: Final = tuple(f"m_{name}" for name in MESSAGES)
PARAMS: Final = STEP_PARAMS + MESSAGE_PARAMS
ANY_TEXT: Final = frozenset({"id", "chat_id", "body"})
"""Columns whose values may need quotes in an array. The others are numbers and fixed words."""
KEPT: Final = tuple(name for name in MESSAGES if name not in ("chat_id", "back"))
"""Columns of a message that are stored unchanged."""
KEPT_OF: Final = itemgetter(*KEPT)


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
    """Return the statement for one step with one message, which the server plans and runs
    faster."""
    return _statement(_plain("i", STEPS), _plain("m", MESSAGES), now)


@lru_cache
def of_many(now: str) -> str:
    """Return the statement for many steps: each parameter is an array."""
    return _statement(_unnested("i", STEPS), _unnested("m", MESSAGES), now)


def _plain(table: str, columns: Mapping[str, str]) -> str:
    values = (f"CAST(:{table}_{name} AS {type}) AS {name}" for name, type in columns.items())
    return f"(SELECT {', '.join(values)}) AS {table}"


def _unnested(table: str, columns: Mapping[str, str]) -> str:
    def array(name: str, type: str) -> str:
        given = f":{table}_{name}" if name in ANY_TEXT else f"CAST(:{table}_{name} AS text)"
        return f"CAST({given} AS {type}[])"

    arrays = ", ".join(array(name, type) for name, type in columns.items())
    return f"unnest({arrays}) AS {table} ({', '.join(columns)})"


def _statement(steps: str, messages: str, now: str) -> str:
    """Return the statement for the tables of steps `i` and messages `m`.

    It returns a row for each chat that it could lock, with a version if the step was committed.
    """
    # IS TRUE: without it, until it has statistics, the server searches for these few chats among
    # all that are running.
    return f"""
    WITH locked AS (
        SELECT {", ".join(f"i.{name}" for name in STEPS)} FROM chats c JOIN {steps} ON i.id = c.id
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
        INSERT INTO messages (chat_id, epoch, number, revision, created_at, {", ".join(KEPT)})
        SELECT changed.id, changed.epoch, changed.messages - m.back, changed.snapshot_version,
               changed.updated_at, {", ".join(f"m.{name}" for name in KEPT)}
          FROM {messages} JOIN changed ON changed.id = m.chat_id
    )
    SELECT locked.id, changed.snapshot_version, changed.messages, changed.queue_version
      FROM locked LEFT JOIN changed ON changed.id = locked.id
    """


def _values(step: Step) -> dict[str, Any]:
    (message,) = step.messages
    return dict(zip(PARAMS, _told(step) + _told_of(step, 0, message), strict=True))


def _arrays(many: Sequence[Step]) -> dict[str, Any]:
    """Return the parameters of `of_many`: columns instead of rows."""
    messages = [
        _told_of(step, len(step.messages) - place, message)
        for step in many
        for place, message in enumerate(step.messages, start=1)
    ]
    columns = chain(zip(*map(_told, many), strict=True), zip(*messages, strict=True))
    names = chain(STEPS, MESSAGES)
    return {
        param: column if name in ANY_TEXT else _array(column)
        for param, name, column in zip(PARAMS, names, columns, strict=True)
    }


def _array(values: Sequence[Any]) -> str:
    """Format an array in PostgreSQL's syntax: JSON in braces, where nothing needs an escape.

    One text is sent much faster than many values.
    """
    return f"{{{encode(values)[1:-1].decode()}}}"


def _told(step: Step) -> tuple[Any, ...]:
    """Return a row of `STEPS`."""
    fence = step.fence
    return fence.chat, fence.epoch, fence.history_version, fence.attempt, len(step.messages)


def _told_of(step: Step, back: int, message: Message) -> tuple[Any, ...]:
    """Return a row of `MESSAGES`."""
    row = _row(step, 0, 0, message, 0)
    return step.fence.chat, back, *KEPT_OF(row)
