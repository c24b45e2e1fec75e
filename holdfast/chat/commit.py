"""Committing a step: the most frequent transition, and the only one with a form for many at once.

The condition of the fence is part of the statement that writes. On PostgreSQL many steps of
different chats are one statement; on SQLite they share a transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct

from holdfast.chat.locked import INSERT_MESSAGE, message_row
from holdfast.chat.state import Fence
from holdfast.kernel.messages import Message
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
        fence = step.fence
        row = await tx.one(
            f"""
            UPDATE chats AS c
               SET {ADVANCE}, messages = c.messages + :count, updated_at = {tx.dialect.now}
             WHERE id = :id AND epoch = :epoch AND status = 'running' AND worker_id IS NOT NULL
               AND history_version = :history_version AND attempt = :attempt
            RETURNING snapshot_version, messages, queue_version, updated_at
            """,
            {
                "id": fence.chat,
                "epoch": fence.epoch,
                "history_version": fence.history_version,
                "attempt": fence.attempt,
                "count": len(step.messages),
            },
        )
        if row is None:
            return LOST
        version, last, queue_version, now = row
        first = last - len(step.messages) + 1
        for place, message in enumerate(step.messages):
            await tx.execute(INSERT_MESSAGE, _row(step, first + place, version, message, now))
        tx.tell(Changed(fence.chat, version))
        return Committed(version, last, queue_version)

    async def together(self, tx: Tx, many: Sequence[Step]) -> Sequence[Committed | Lost | None]:
        rows = await tx.fetch(TOGETHER.replace(":now_", tx.dialect.now), _arrays(many))
        outcomes: dict[str, Committed | Lost | None] = {}
        for chat, locked, version, messages, queue_version in rows:
            if version is not None:
                outcomes[chat] = Committed(version, messages, queue_version)
                tx.tell(Changed(chat, version))
            else:
                # A chat that is gone is locked by nobody, and is found to be lost alone.
                outcomes[chat] = LOST if locked else None
        return [outcomes[step.chat] for step in many]


COMMIT_STEP: Final = _CommitStep()


def _row(step: Step, number: int, version: int, message: Message, now: int) -> dict[str, Any]:
    runtime = step.runtime if message.kind == "answer" else None
    epoch = step.fence.epoch
    return message_row(step.chat, number, version, message, now, epoch=epoch, runtime=runtime)


TOGETHER: Final = f"""
    WITH input AS (
        SELECT * FROM unnest(CAST(:ids AS text[]), CAST(:epochs AS bigint[]),
                             CAST(:history_versions AS bigint[]), CAST(:attempts AS bigint[]),
                             CAST(:counts AS bigint[]))
            AS i (id, epoch, history_version, attempt, count)
    ), locked AS (
        SELECT c.id FROM chats c JOIN input i ON i.id = c.id
         ORDER BY c.id FOR NO KEY UPDATE OF c SKIP LOCKED
    ), changed AS (
        UPDATE chats AS c
           SET {ADVANCE}, messages = c.messages + i.count, updated_at = :now_
          FROM input i
         WHERE c.id = i.id AND c.id IN (SELECT id FROM locked)
           AND c.epoch = i.epoch AND c.status = 'running' AND c.worker_id IS NOT NULL
           AND c.history_version = i.history_version AND c.attempt = i.attempt
        RETURNING c.id, c.snapshot_version, c.messages, c.queue_version, c.updated_at
    ), added AS (
        INSERT INTO messages (chat_id, number, revision, role, kind, visibility, body, epoch,
                              runtime, input, output, reasoning, cache_read, cache_write, cost,
                              created_at)
        SELECT m.chat_id, changed.messages - m.back, changed.snapshot_version, m.role, m.kind,
               m.visibility, m.body, m.epoch, m.runtime, m.input, m.output, m.reasoning,
               m.cache_read, m.cache_write, m.cost, changed.updated_at
          FROM unnest(CAST(:m_chat_id AS text[]), CAST(:m_back AS bigint[]),
                      CAST(:m_role AS text[]), CAST(:m_kind AS text[]),
                      CAST(:m_visibility AS text[]), CAST(:m_body AS text[]),
                      CAST(:m_epoch AS bigint[]), CAST(:m_runtime AS bigint[]),
                      CAST(:m_input AS bigint[]), CAST(:m_output AS bigint[]),
                      CAST(:m_reasoning AS bigint[]), CAST(:m_cache_read AS bigint[]),
                      CAST(:m_cache_write AS bigint[]), CAST(:m_cost AS double precision[]))
               AS m (chat_id, back, role, kind, visibility, body, epoch, runtime, input, output,
                     reasoning, cache_read, cache_write, cost)
          JOIN changed ON changed.id = m.chat_id
    )
    SELECT i.id, locked.id IS NOT NULL, changed.snapshot_version, changed.messages,
           changed.queue_version
      FROM input i LEFT JOIN locked ON locked.id = i.id LEFT JOIN changed ON changed.id = i.id
    """
M_COLUMNS: Final = (
    "chat_id",
    "role",
    "kind",
    "visibility",
    "body",
    "epoch",
    "runtime",
    "input",
    "output",
    "reasoning",
    "cache_read",
    "cache_write",
    "cost",
)


def _arrays(many: Sequence[Step]) -> dict[str, list[Any]]:
    arrays: dict[str, list[Any]] = {
        "ids": [step.fence.chat for step in many],
        "epochs": [step.fence.epoch for step in many],
        "history_versions": [step.fence.history_version for step in many],
        "attempts": [step.fence.attempt for step in many],
        "counts": [len(step.messages) for step in many],
    }
    back: list[int] = []
    rows = []
    for step in many:
        for place, message in enumerate(step.messages, start=1):
            back.append(len(step.messages) - place)
            rows.append(_row(step, 0, 0, message, 0))
    arrays["m_back"] = back
    for column in M_COLUMNS:
        arrays[f"m_{column}"] = [row[column] for row in rows]
    return arrays
