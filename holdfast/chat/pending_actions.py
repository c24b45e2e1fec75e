"""Pending actions of one user, in all their chats, child chats included."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from msgspec import Meta, Struct, structs

from holdfast.chat.journal import NOT_IN_HISTORY
from holdfast.chat.rows import document
from holdfast.chat.snapshots import Pending
from holdfast.kernel.events import Action
from holdfast.kernel.messages import prepare_to_decode
from holdfast.store.database import Row, Tx

ActionPosition: TypeAlias = tuple[Annotated[int, Meta(ge=0, le=2**63 - 1)], str, str]
"""Position of an action in the list: creation time, chat, call."""


class ListedAction(Struct, frozen=True, kw_only=True):
    """A pending action with the chat that waits for it."""

    chat_id: str
    root_id: str
    """Id of the root chat, which is the one in chat lists."""
    title: str | None
    """Title of the chat."""
    root_title: str | None
    agent: str
    asked_at: int
    action: Pending

    @property
    def position(self) -> ActionPosition:
        """Position of the action in the list."""
        return self.asked_at, self.chat_id, self.action.call.id


async def read_actions_of_owner(
    tx: Tx, owner: str, *, before: ActionPosition | None = None, limit: int = 100
) -> list[ListedAction]:
    """Read a page of an owner's pending actions, newest first.

    `before` is the position of the last action of the page before.
    """
    params: dict[str, Any] = {"owner": owner, "limit": limit}
    after_cursor = ""
    if before is not None:
        params["at"], params["chat"], params["call"] = before
        after_cursor = "AND (m.created_at, t.chat_id, t.call_id) < (:at, :chat, :call)"
    rows = await tx.fetch(
        f"""
        SELECT c.id, c.root_id, c.title, r.title, c.agent, m.created_at, t.call_id, t.asked,
               t.number, t.deadline
          FROM chats c
          JOIN (SELECT * FROM tool_calls WHERE {NOT_IN_HISTORY} AND state = 'waiting'
                                           AND action <> 'child') t ON t.chat_id = c.id
          JOIN messages m ON m.chat_id = t.chat_id AND m.number = t.number
          JOIN chats r ON r.id = c.root_id
         WHERE c.owner = :owner AND c.status IN ('running', 'requires_action') {after_cursor}
         ORDER BY m.created_at DESC, t.chat_id DESC, t.call_id DESC LIMIT :limit
        """,
        params,
    )
    return [_listed_action_of(row) for row in rows]


def _listed_action_of(row: Row) -> ListedAction:
    chat, root, title, root_title, agent, at, call, action_json, number, deadline = row
    action = document(chat, f"call {call}", action_json, Action)
    return ListedAction(
        chat_id=chat,
        root_id=root,
        title=title,
        root_title=root_title,
        agent=agent,
        asked_at=at,
        action=Pending(**structs.asdict(action), number=number, deadline=deadline),
    )


prepare_to_decode(ListedAction)
