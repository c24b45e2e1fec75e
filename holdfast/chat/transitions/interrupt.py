"""Interrupting a chat together with every chat below it. Locks are taken from parent to child."""

from __future__ import annotations

from holdfast.chat import queue
from holdfast.chat.journal import answer_open
from holdfast.chat.locked_chat import LockedChat, lock_if_exists
from holdfast.chat.rows import SELECT_MESSAGE, Status, TurnOutcome, stored_of
from holdfast.kernel.messages import marker


async def interrupt_tree(locked: LockedChat) -> None:
    """Interrupt a chat and every chat below it."""
    match locked.chat.status:
        case Status.RUNNING:
            await begin_interrupt(locked)
        case Status.REQUIRES_ACTION:
            await interrupt_children(locked)
            await answer_open(locked, "interrupted")
            await locked.append([marker("interrupted_tools")])  # no runner will settle the turn
            delivered = await queue.deliver_head_or_idle(locked, "interrupted")
            locked.set(outcome=None if delivered else TurnOutcome("interrupted"))
            locked.set(deadline=None, compaction=None)
        case _:
            locked.discard()
            await interrupt_children(locked)


async def begin_interrupt(locked: LockedChat) -> None:
    """Request that the runner settles the turn, and interrupt the children."""
    locked.set(status=Status.INTERRUPTING, retry=None, retry_at=None, compaction=None)
    await interrupt_children(locked)


async def interrupt_children(locked: LockedChat, since: int = 0) -> None:
    """Interrupt the children that were spawned by calls of message `since` or a later one.

    An idle child is included, because it may have spawned children of its own.
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
        call_ids = await _calls_since(locked, since)
        rows = [row for row in rows if row[1] in call_ids]
    for child_id, _ in rows:
        child = await lock_if_exists(locked.tx, child_id)
        if child is not None:
            await interrupt_tree(child)
            await child.close()


async def _calls_since(locked: LockedChat, number: int) -> set[str]:
    """Return the ids of all calls in message `number` and after it, superseded or not."""
    rows = await locked.tx.fetch(
        f"{SELECT_MESSAGE} WHERE chat_id = :id AND number >= :since AND kind = 'answer'",
        {"id": locked.chat.id, "since": number},
    )
    messages = [stored_of(locked.chat.id, row).message for row in rows]
    return {call.id for message in messages for call in message.calls}
