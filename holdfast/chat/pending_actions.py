"""Actions that wait for one person, in all of their chats and the chats below these."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from msgspec import Meta, Struct, structs

from holdfast.chat.journal import OPEN
from holdfast.chat.rows import document
from holdfast.chat.snapshots import Pending
from holdfast.kernel.events import Action
from holdfast.kernel.messages import prepare_to_decode
from holdfast.store.database import Row, Tx

Place: TypeAlias = tuple[Annotated[int, Meta(ge=0, le=2**63 - 1)], str, str]
"""Position of an action in the list: creation time, chat, call."""


class Asked(Struct, frozen=True, kw_only=True):
    """An action with the chat that waits for it."""

    chat_id: str
    root_id: str
    """Id of the root chat, which is the one shown in lists."""
    title: str | None
    """Title of the chat."""
    root_title: str | None
    agent: str
    asked_at: int
    action: Pending

    @property
    def place(self) -> Place:
        """Position of the action in the list."""
        return self.asked_at, self.chat_id, self.action.call.id


async def read_asked(
    tx: Tx, owner: str, *, before: Place | None = None, limit: int = 100
) -> list[Asked]:
    """Read a page of actions, newest first. `before` is the position of the last one seen."""
    given: dict[str, Any] = {"owner": owner, "limit": limit}
    behind = ""
    if before is not None:
        given["at"], given["chat"], given["call"] = before
        behind = "AND (m.created_at, t.chat_id, t.call_id) < (:at, :chat, :call)"
    rows = await tx.fetch(
        f"""
        SELECT c.id, c.root_id, c.title, r.title, c.agent, m.created_at, t.call_id, t.asked,
               t.number, t.deadline
          FROM chats c
          JOIN (SELECT * FROM tool_calls WHERE {OPEN} AND state = 'waiting'
                                           AND action <> 'child') t ON t.chat_id = c.id
          JOIN messages m ON m.chat_id = t.chat_id AND m.number = t.number
          JOIN chats r ON r.id = c.root_id
         WHERE c.owner = :owner AND c.status IN ('running', 'requires_action') {behind}
         ORDER BY m.created_at DESC, t.chat_id DESC, t.call_id DESC LIMIT :limit
        """,
        given,
    )
    return [_asked_of(row) for row in rows]


def _asked_of(row: Row) -> Asked:
    chat, root, title, root_title, agent, at, call, asked, number, deadline = row
    action = document(chat, f"call {call}", asked, Action)
    return Asked(
        chat_id=chat,
        root_id=root,
        title=title,
        root_title=root_title,
        agent=agent,
        asked_at=at,
        action=Pending(**structs.asdict(action), number=number, deadline=deadline),
    )


prepare_to_decode(Asked)
