"""Committing a step: the most frequent transition, and the only one with a form for many at once.

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

from holdfast.chat.locked import INSERT_MESSAGE, message_row
from holdfast.chat.state import Fence
from holdfast.kernel.messages import Message, encode
from holdfast.store.database import Changed, Tx


class Step(Struct, frozen=True):
    """Messages to be committed by a runner that still holds its chat."""

    fence: Fence
    messages: tuple[Message, ...]
    runtime: int | None = None
    """Of an answer: milliseconds."""

    @property
    def chat(self) -> str:
        return self.fence.chat


class Committed(Struct, frozen=True):
    version: int
    """Snapshot and history version after it."""
    messages: int
    """The number of the last message."""
    queue_version: int


class Lost(Struct, frozen=True):
    """The chat was no longer as the runner left it: nothing was written."""


LOST: Final = Lost()

ADVANCE: Final = """
    snapshot_version = c.snapshot_version + 1, history_version = c.snapshot_version + 1,
    attempt = 1, retry = NULL, retry_at = NULL, crashes = 0
    """


class _CommitStep:
    """The transition `commit step`, of one chat or of many."""

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
        # A chat that is gone is locked by nobody, and is found to be lost alone.
        return [outcomes.get(step.chat) for step in many]


COMMIT_STEP: Final = _CommitStep()


async def _one_by_one(tx: Tx, many: Sequence[Step]) -> list[Committed | Lost]:
    """A statement for each chat, and one for each of its messages."""
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
    """What the statement of a chat is told."""
    fence = step.fence
    return {
        "id": fence.chat,
        "epoch": fence.epoch,
        "history_version": fence.history_version,
        "attempt": fence.attempt,
        "count": len(step.messages),
    }


def _row(step: Step, number: int, version: int, message: Message, now: int) -> dict[str, Any]:
    runtime, fence = step.runtime if message.kind == "answer" else None, step.fence
    return message_row(
        fence.chat, number, version, message, now, epoch=fence.epoch, runtime=runtime
    )


STEPS: Final = {
    "id": "text",
    "epoch": "bigint",
    "history_version": "bigint",
    "attempt": "bigint",
    "count": "bigint",
}
"""What the statement is told of a step: names and types."""
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
"""The same of a message. `back`: how many of its step come after it."""
STEP_PARAMS: Final = tuple(f"i_{name}" for name in STEPS)
MESSAGE_PARAMS: Final = tuple(f"m_{name}" for name in MESSAGES)
PARAMS: Final = STEP_PARAMS + MESSAGE_PARAMS
ANY_TEXT: Final = frozenset({"id", "chat_id", "body"})
"""What may need quotes in an array. All else is numbers, and words of ours."""
KEPT: Final = tuple(name for name in MESSAGES if name not in ("chat_id", "back"))
"""Columns of a message that are stored as they are told."""
KEPT_OF: Final = itemgetter(*KEPT)


@lru_cache
def of_chat(now: str) -> str:
    """The statement for the chat alone; its messages are inserted by others."""
    return f"""
    UPDATE chats AS c
       SET {ADVANCE}, messages = c.messages + :count, updated_at = {now}
     WHERE id = :id AND epoch = :epoch AND status = 'running' AND worker_id IS NOT NULL
       AND history_version = :history_version AND attempt = :attempt
    RETURNING id, snapshot_version, messages, queue_version, updated_at
    """


@lru_cache
def of_one(now: str) -> str:
    """The statement for one step with one message. The server plans and runs it much sooner."""
    return _statement(_plain("i", STEPS), _plain("m", MESSAGES), now)


@lru_cache
def of_many(now: str) -> str:
    """The statement for many steps: each parameter is an array."""
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
    """Of steps `i` and messages `m`, which are tables whatever they are made of.

    Gives a row of each chat that it could lock, with a version if the step was committed.
    """
    # IS TRUE: or else, until it knows how many chats there are, the server looks for these few
    # among all that are running.
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
    """Columns, where plain values are rows."""
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
    """An array as the server writes it: JSON in other brackets, where nothing needs an escape.

    One text is sent much sooner than many values.
    """
    return f"{{{encode(values)[1:-1].decode()}}}"


def _told(step: Step) -> tuple[Any, ...]:
    """A row of `STEPS`."""
    fence = step.fence
    return fence.chat, fence.epoch, fence.history_version, fence.attempt, len(step.messages)


def _told_of(step: Step, back: int, message: Message) -> tuple[Any, ...]:
    """A row of `MESSAGES`."""
    row = _row(step, 0, 0, message, 0)
    return step.fence.chat, back, *KEPT_OF(row)
