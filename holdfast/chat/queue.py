"""The queue of a chat: messages that wait to be delivered, in one order everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from holdfast.chat.errors import QueuedNotFound, QueueFull, WrongOrder
from holdfast.chat.journal import answer_open
from holdfast.chat.locked_chat import LockedChat
from holdfast.chat.rows import Queued, Status, document
from holdfast.kernel.messages import Message, ToolOutcome, encode
from holdfast.store.database import Tx

MAX_QUEUED: Final = 50
DELIVERY_RANK: Final = "CASE deliver WHEN 'interrupt' THEN 0 WHEN 'steer' THEN 1 ELSE 2 END"


async def read_queue(tx: Tx, chat_id: str) -> list[Queued]:
    """Read the queue in delivery order: first interrupt, then steer, then queue.

    Within a kind the order is that of arrival, unless a user reordered it.
    """
    rows = await tx.fetch(
        f"""
        SELECT id, deliver, body, position, model, effort, author, created_at
          FROM queue WHERE chat_id = :id ORDER BY {DELIVERY_RANK}, position
        """,
        {"id": chat_id},
    )
    return [
        Queued(row[0], row[1], document(chat_id, f"queued {row[0]}", row[2], Message), *row[3:])
        for row in rows
    ]


async def push(locked: LockedChat, queued: Queued) -> None:
    """Queue a message after the others of its kind. Raises `QueueFull`."""
    row = await locked.tx.one(
        "SELECT count(*), COALESCE(max(position), 0) FROM queue WHERE chat_id = :id",
        {"id": locked.chat.id},
    )
    assert row is not None
    if row[0] >= MAX_QUEUED:
        raise QueueFull(MAX_QUEUED)
    await locked.tx.execute(
        """
        INSERT INTO queue (chat_id, id, position, deliver, body, model, effort, author, created_at)
        VALUES (:chat, :id, :position, :deliver, :body, :model, :effort, :author, :at)
        """,
        {
            "chat": locked.chat.id,
            "id": queued.id,
            "position": row[1] + 1,
            "deliver": queued.deliver,
            "body": encode(queued.message).decode(),
            "model": queued.model,
            "effort": queued.effort,
            "author": queued.author,
            "at": locked.now,
        },
    )
    locked.queue_changed()


async def drop(locked: LockedChat, queued: Sequence[Queued]) -> None:
    """Remove messages from the queue."""
    if queued:
        await locked.tx.execute(
            f"""
            DELETE FROM queue
             WHERE chat_id = :chat AND {locked.tx.dialect.one_of("id", "ids")}
            """,
            {"chat": locked.chat.id, "ids": [message.id for message in queued]},
        )
        locked.queue_changed()


def head(queue: Sequence[Queued]) -> list[Queued]:
    """Return the messages to deliver next: all of interrupt and steer, else the first one."""
    return steering(queue) or list(queue[:1])


def steering(queue: Sequence[Queued]) -> list[Queued]:
    """Return the messages to deliver at the next step boundary: interrupt and steer."""
    return [queued for queued in queue if queued.deliver != "queue"]


async def deliver(locked: LockedChat, queued: Sequence[Queued], open_calls: ToolOutcome) -> None:
    """Move messages from the queue to the history, after a result for every open call."""
    await answer_open(locked, open_calls)
    await drop(locked, queued)
    for message in queued:
        choose(locked, message.model, message.effort)
        await locked.append([message.message], author=message.author)
        locked.delivered[message.id] = locked.chat.messages


def choose(locked: LockedChat, model: str | None, effort: str | None) -> None:
    """Set the model and effort of the chat, where a message specifies them."""
    if model is not None:
        locked.set(model=model)
    if effort is not None:
        locked.set(effort=effort)


async def deliver_head_or_idle(locked: LockedChat, open_calls: ToolOutcome) -> bool:
    """Deliver the head of the queue, or become idle. Returns whether anything was delivered."""
    messages = []
    if locked.chat.queue_version:  # otherwise nothing was ever queued: save the query
        messages = head(await read_queue(locked.tx, locked.chat.id))
    if messages:
        await deliver(locked, messages, open_calls)
    locked.set(status=Status.RUNNING if messages else Status.IDLE)
    return bool(messages)


async def find(locked: LockedChat, id: str) -> Queued:
    """Return a queued message. Raises `QueuedNotFound`."""
    for queued in await read_queue(locked.tx, locked.chat.id):
        if queued.id == id:
            return queued
    raise QueuedNotFound(id)


async def to_front_as_interrupt(locked: LockedChat, id: str) -> None:
    """Move a message to the front of the queue, as an interrupt message."""
    queued = await find(locked, id)
    row = await locked.tx.one(
        "SELECT min(position) FROM queue WHERE chat_id = :chat", {"chat": locked.chat.id}
    )
    assert row is not None
    await locked.tx.execute(
        """
        UPDATE queue SET deliver = 'interrupt', position = :position
         WHERE chat_id = :chat AND id = :id
        """,
        {"chat": locked.chat.id, "id": queued.id, "position": row[0] - 1},
    )
    locked.queue_changed()


async def put_in_order(locked: LockedChat, ids: Sequence[str]) -> None:
    """Reorder the queue. Kinds keep their order; messages move within their kind."""
    queue = await read_queue(locked.tx, locked.chat.id)
    if sorted(ids) != sorted(queued.id for queued in queue):
        raise WrongOrder(ids, [queued.id for queued in queue])
    last_position = max(queued.position for queued in queue)
    await locked.tx.execute_many(
        "UPDATE queue SET position = :position WHERE chat_id = :chat AND id = :id",
        [
            {"chat": locked.chat.id, "id": id, "position": last_position + offset}
            for offset, id in enumerate(ids, start=1)
        ],
    )
    locked.queue_changed()
