"""Interrupting a chat together with every chat below it. Locks are taken from parent to child."""

from __future__ import annotations

from holdfast.chat import queue
from holdfast.chat.journal import answer_open
from holdfast.chat.row_lock import Locked, lock_if_there
from holdfast.chat.rows import SELECT_MESSAGE, Rest, Status, stored_of
from holdfast.kernel.messages import Message, Text


async def stop(locked: Locked, marker: str = "") -> None:
    """Interrupt a chat. `marker` informs the model, where no runner is left to settle the turn."""
    match locked.chat.status:
        case Status.RUNNING:
            await begin_interrupt(locked)
        case Status.REQUIRES_ACTION:
            await interrupt_children(locked)
            await answer_open(locked, "interrupted")
            if marker:
                await locked.append([Message("user", (Text(marker),), "marker", "model")])
            delivered = await queue.deliver_head_or_rest(locked, "interrupted")
            locked.set(outcome=None if delivered else Rest("interrupted"))
            locked.set(deadline=None, compaction=None)
        case _:
            locked.leave()
            await interrupt_children(locked)


async def begin_interrupt(locked: Locked) -> None:
    """Request that the runner of the chat stops."""
    locked.set(status=Status.INTERRUPTING, retry=None, retry_at=None, compaction=None)
    await interrupt_children(locked)


async def interrupt_children(locked: Locked, since: int = 0) -> None:
    """Interrupt the children that were spawned by calls of message `since` or a later one.

    Also those of an idle child: it may have spawned others.
    """
    rows = await locked.tx.fetch(
        """
        SELECT c.id, c.spawned_by FROM chats c
         WHERE c.parent_id = :id
           AND (c.status IN ('running', 'requires_action')
                OR EXISTS (SELECT 1 FROM chats k WHERE k.parent_id = c.id))
         ORDER BY c.id
        """,
        {"id": locked.chat.id},
    )
    if since and rows:
        asked = await _asked_since(locked, since)
        rows = [row for row in rows if row[1] in asked]
    for child_id, _ in rows:
        child = await lock_if_there(locked.tx, child_id)
        if child is not None:
            await stop(child)
            await child.close()


async def _asked_since(locked: Locked, number: int) -> set[str]:
    """Return the calls of a message and of all after it, superseded or not."""
    rows = await locked.tx.fetch(
        f"{SELECT_MESSAGE} WHERE chat_id = :id AND number >= :since AND kind = 'answer'",
        {"id": locked.chat.id, "since": number},
    )
    messages = [stored_of(locked.chat.id, row).message for row in rows]
    return {call.id for message in messages for call in message.calls}
