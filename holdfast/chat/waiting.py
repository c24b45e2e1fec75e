"""What waits for one person, in all of their chats and in those that these set to work."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from msgspec import Meta, Struct, structs

from holdfast.chat.journal import OPEN
from holdfast.chat.state import document
from holdfast.chat.view import Pending
from holdfast.kernel.events import Action
from holdfast.kernel.messages import prepare_to_decode
from holdfast.store.database import Row, Tx

Place: TypeAlias = tuple[Annotated[int, Meta(ge=0, le=2**63 - 1)], str, str]
"""When it was asked for, the chat, and the call: where it stands among all."""


class Asked(Struct, frozen=True, kw_only=True):
    """Something that a chat waits for, and where."""

    chat_id: str
    root_id: str
    """The chat at the top: the one that people see in their list."""
    title: str | None
    """Of the chat."""
    root_title: str | None
    agent: str
    asked_at: int
    action: Pending

    @property
    def place(self) -> Place:
        return self.asked_at, self.chat_id, self.action.call.id


async def read_asked(
    tx: Tx, owner: str, *, before: Place | None = None, limit: int = 100
) -> list[Asked]:
    """The newest first. `before` is the place of the last one seen."""
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
