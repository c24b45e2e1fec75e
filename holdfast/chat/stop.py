"""Stopping a chat, and with it every chat that it set to work. Locks go from parent to child."""

from __future__ import annotations

from holdfast.chat import queue
from holdfast.chat.journal import answer_open
from holdfast.chat.locked import Locked, lock_if_there
from holdfast.chat.state import SELECT_MESSAGE, Rest, Status, stored_of
from holdfast.kernel.messages import Message, Text


async def stop(locked: Locked, marker: str = "") -> None:
    """Interrupt a chat. `marker` tells the model, where there is nobody left to settle it."""
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
    """Ask whoever runs the chat to stop."""
    locked.set(status=Status.INTERRUPTING, retry=None, retry_at=None, compaction=None)
    await interrupt_children(locked)


async def interrupt_children(locked: Locked, since: int = 0) -> None:
    """Stop the children that were spawned by calls of message `since` or a later one.

    Also those of a child that is at rest itself: it may have set others to work.
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
    """The calls of a message and of all behind it, superseded or not."""
    rows = await locked.tx.fetch(
        f"{SELECT_MESSAGE} WHERE chat_id = :id AND number >= :since AND kind = 'answer'",
        {"id": locked.chat.id, "since": number},
    )
    messages = [stored_of(locked.chat.id, row).message for row in rows]
    return {call.id for message in messages for call in message.calls}
