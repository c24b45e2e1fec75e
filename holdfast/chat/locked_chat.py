"""A chat under its row lock: read once, changed as a value, and written by one statement."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import structs

from holdfast.chat.causes import causes_after
from holdfast.chat.errors import ChatArchived, ChatNotFound, Corrupt, Fenced
from holdfast.chat.message_rows import INSERT_MESSAGE, message_row
from holdfast.chat.rows import (
    CHAT_COLUMNS,
    JSON_COLUMNS,
    ChatRow,
    Fence,
    Status,
    Stored,
    chat_of,
    fence_of,
    runnable,
)
from holdfast.chat.spending_counters import NOTHING_SPENT, SPEND, Spending, spending_params
from holdfast.chat.state_machine import TRANSITIONS, Transition, check
from holdfast.kernel.handoff import handover_note
from holdfast.kernel.messages import Message, encode
from holdfast.store.database import Changed, Claimable, Tx


class LockedChat:
    """A locked chat that a transition changes. `close` writes the row, once.

    Rows of other tables are written immediately, with the version that the chat will have.
    """

    def __init__(self, tx: Tx, chat: ChatRow, now: int) -> None:
        self.tx = tx
        self.transition: Transition | None = None
        self.before = chat
        self.chat = chat
        """The chat as it will be written."""
        self.now = now
        self.version = chat.snapshot_version + 1
        self.appended: list[Stored] = []
        self.spending = Spending()
        """What the appended messages have cost."""
        self.delivered: dict[str, int] = {}
        """Numbers of messages that moved from the queue to the history, by queue id."""
        self._changed_columns: dict[str, Any] = {}
        self._discarded = False

    def set(self, **changes: Any) -> None:
        """Change columns of the chat."""
        self.chat = structs.replace(self.chat, **changes)
        self._changed_columns |= changes

    def discard(self) -> None:
        """Discard the change: no new version, no notice."""
        self._discarded = True

    async def append(
        self,
        messages: Iterable[Message],
        *,
        author: str | None = None,
        epoch: int | None = None,
    ) -> None:
        """Append messages to the history: a new history version, and attempt 1 at the next step."""
        rows: list[dict[str, Any]] = []
        for message in messages:
            number = self.chat.messages + len(rows) + 1
            rows.append(
                message_row(
                    self.chat.id,
                    number,
                    self.version,
                    message,
                    self.now,
                    author=author if message.kind == "prompt" else None,
                    epoch=epoch,
                )
            )
            self.appended.append(Stored(number, self.version, message, author, self.now))
            if epoch is not None:
                self.spending.add_message(message)
        if rows:
            await self.tx.execute_many(INSERT_MESSAGE, rows)
            self.set(
                messages=self.chat.messages + len(rows),
                history_version=self.version,
                attempt=1,
                retry=None,
                retry_at=None,
            )

    def retry_now(self) -> None:
        """Start the next attempt immediately, because a new message changes the request."""
        pending_retry = self.chat.retry
        self.set(
            retry_at=None,
            retry=None if pending_retry is None else structs.replace(pending_retry, at=None),
        )

    async def use_agent(self, agent: str) -> None:
        """Give the chat another agent now: no call of the current one may be open."""
        self.set(agent=agent, next_agent=None)
        if self.chat.messages:
            await self.append([handover_note(agent)])

    def queue_changed(self) -> None:
        """Raise the queue version."""
        self.set(queue_version=self.version)

    async def close(self, *, children_are_idle: bool = False) -> ChatRow:
        """Write the row. Notices are sent once the transaction is committed."""
        if self._discarded:
            return self.before
        if self.chat.next_agent is not None and self.chat.status is Status.IDLE:
            await self.use_agent(self.chat.next_agent)
        sql, values = self._final_update(children_are_idle)
        if await self.tx.execute(sql, values) != 1:
            raise Corrupt(self.chat.id, "version", "the row changed while it was locked")
        self._add_notices(children_are_idle)
        return self.chat

    def _final_update(self, children_are_idle: bool) -> tuple[str, dict[str, Any]]:
        """Set the final values, and return the statement that writes the row."""
        if self.transition is not None:
            allowed = TRANSITIONS[self.before.status, self.transition]
            assert self.chat.status in allowed, (
                self.before.status,
                self.transition,
                self.chat.status,
            )
        self._update_ownership(children_are_idle)
        self._update_causes()
        self.set(snapshot_version=self.version, updated_at=self.now)
        changes = {
            name: value
            for name, value in self._changed_columns.items()
            if value != getattr(self.before, name)
        }
        for name in JSON_COLUMNS:
            if changes.get(name) is not None:
                changes[name] = encode(changes[name]).decode()
        if "archived" in changes:
            changes["archived"] = int(changes["archived"])
        assignments = [f"{name} = :{name}" for name in changes]
        if self.spending != NOTHING_SPENT:
            assignments.append(SPEND)
            changes |= {"at": self.now, **spending_params(self.spending)}
        sql = (
            f"UPDATE chats SET {', '.join(assignments)} "
            "WHERE id = :id AND snapshot_version = :version_before AND epoch = :epoch_before"
        )
        condition_params = {
            "id": self.chat.id,
            "version_before": self.before.snapshot_version,
            "epoch_before": self.before.epoch,
        }
        return sql, changes | condition_params

    def _add_notices(self, children_are_idle: bool) -> None:
        """Add the notices: the chat changed, and workers or its parent may have work."""
        self.tx.notify(Changed(self.chat.id, self.version))
        if self.chat.worker_id is None and runnable(self.chat, self.now, children_are_idle):
            self.tx.notify(Claimable(self.chat.id))
        if self.chat.parent_id is not None and self.before.busy and not self.chat.busy:
            self.tx.notify(Claimable(self.chat.parent_id))  # it may wait for this child

    def _update_causes(self) -> None:
        """Note who made the chat work, for links from traces of its turns."""
        before, now = self.before, self.chat
        causes = causes_after(
            before.causes, self.transition, was_busy=before.busy, is_busy=now.busy
        )
        if causes != before.causes:
            self.set(causes=causes)

    def _update_ownership(self, children_are_idle: bool) -> None:
        """Release a chat that is not runnable, and note since when one is runnable.

        A worker that claimed a chat because of a deadline keeps it, whatever users do meanwhile.
        """
        if self.chat.status in (Status.RUNNING, Status.INTERRUPTING) or children_are_idle:
            if self.chat.runnable_since is None:
                self.set(runnable_since=self.now)
        elif self.chat.status is not self.before.status or self.transition is Transition.EXPIRE:
            self.set(worker_id=None, runnable_since=None)


async def close_all(tx: Tx, chats: Sequence[LockedChat]) -> list[ChatRow]:
    """Close several locked chats with as few statements as possible.

    Affected rows are not counted: the locks guarantee them.
    """
    statements: dict[str, list[dict[str, Any]]] = {}
    for locked in chats:
        sql, values = locked._final_update(children_are_idle=False)
        statements.setdefault(sql, []).append(values)
    for sql, param_sets in statements.items():
        await tx.execute_many(sql, param_sets)
    for locked in chats:
        locked._add_notices(children_are_idle=False)
    return [locked.chat for locked in chats]


async def lock(tx: Tx, chat_id: str) -> LockedChat:
    """Lock a chat for a change. Raises `ChatNotFound`."""
    row = await tx.one(
        f"""
        SELECT {tx.dialect.now}, {", ".join(CHAT_COLUMNS)} FROM chats
         WHERE id = :id {tx.dialect.lock}
        """,
        {"id": chat_id},
    )
    if row is None:
        raise ChatNotFound(chat_id)
    return LockedChat(tx, chat_of(row[1:]), row[0])


async def lock_if_exists(tx: Tx, chat_id: str) -> LockedChat | None:
    """Lock a chat that may have been deleted; None if it was."""
    try:
        return await lock(tx, chat_id)
    except ChatNotFound:
        return None


async def begin(tx: Tx, chat_id: str, transition: Transition) -> LockedChat:
    """Lock a chat for a transition that its status must allow."""
    locked = await lock(tx, chat_id)
    if locked.chat.archived:
        raise ChatArchived(chat_id)
    check(locked.chat.status, transition)
    locked.transition = transition
    return locked


async def begin_fenced(tx: Tx, fence: Fence, transition: Transition) -> LockedChat:
    """Lock a chat for its runner. Raises `Fenced` if the chat no longer matches the fence."""
    try:
        locked = await lock(tx, fence.chat)
    except ChatNotFound:
        raise Fenced from None
    if fence_of(locked.chat) != fence or locked.chat.worker_id is None:
        raise Fenced
    check(locked.chat.status, transition)
    locked.transition = transition
    return locked
