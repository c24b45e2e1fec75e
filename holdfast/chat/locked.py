"""A chat under its lock: read once, changed as a value, written by one statement at the end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from msgspec import Struct, structs

from holdfast.chat.errors import ChatArchived, ChatNotFound, Corrupt, Fenced
from holdfast.chat.state import (
    DOCUMENTS,
    NAMES,
    SELECT_CHAT,
    Chat,
    Fence,
    Status,
    Stored,
    chat_of,
    runnable,
)
from holdfast.chat.table import TRANSITIONS, Transition, check
from holdfast.kernel.messages import Message, encode
from holdfast.store.database import Changed, Claimable, Tx


class Locked:
    """The chat that a transition may change. `close` writes what became of it, once.

    Rows that belong to the chat are written as they come, with the version that the chat will have.
    """

    def __init__(self, tx: Tx, chat: Chat, now: int) -> None:
        self.tx = tx
        self.transition: Transition | None = None
        self.was = chat
        self.chat = chat
        """As it will be."""
        self.now = now
        self.version = chat.snapshot_version + 1
        self.appended: list[Stored] = []
        self.delivered: dict[str, int] = {}
        """Messages that left the queue for the history: their ids, and their numbers there."""
        self._set: dict[str, Any] = {}
        self._untouched = False

    def set(self, **changes: Any) -> None:
        self.chat = structs.replace(self.chat, **changes)
        self._set |= changes

    def leave(self) -> None:
        """Nothing is to change after all: no new version, nobody is told."""
        self._untouched = True

    async def append(
        self,
        messages: Iterable[Message],
        *,
        author: str | None = None,
        epoch: int | None = None,
        runtime: int | None = None,
        charged: bool = True,
    ) -> None:
        """Messages enter the history: a new version of it, and a first attempt at what follows."""
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
                    runtime=runtime if message.kind == "answer" else None,
                    charged=charged,
                )
            )
            self.appended.append(Stored(number, self.version, message, author, self.now))
        if rows:
            await self.tx.execute_many(INSERT_MESSAGE, rows)
            self.set(
                messages=self.chat.messages + len(rows),
                history_version=self.version,
                attempt=1,
                retry=None,
                retry_at=None,
            )

    def wait_no_longer(self) -> None:
        """The next attempt begins at once: what is said changes the request."""
        shown = self.chat.retry
        self.set(retry_at=None, retry=None if shown is None else structs.replace(shown, at=None))

    def queue_changed(self) -> None:
        self.set(queue_version=self.version)

    async def close(self, *, children_rest: bool = False) -> Chat:
        """Write the row, and have everybody told once this is committed."""
        if self._untouched:
            return self.was
        sql, values = self._ended(children_rest)
        if await self.tx.execute(sql, values) != 1:
            raise Corrupt(self.chat.id, "version", "it changed while it was locked")
        self._tell(children_rest)
        return self.chat

    def _ended(self, children_rest: bool) -> tuple[str, dict[str, Any]]:
        """The statement that writes the row, once all that it will be is known."""
        if self.transition is not None:
            allowed = TRANSITIONS[self.was.status, self.transition]
            assert self.chat.status in allowed, (self.was.status, self.transition, self.chat.status)
        self._rest_or_run(children_rest)
        self.set(snapshot_version=self.version, updated_at=self.now)
        changes = {
            name: value for name, value in self._set.items() if value != getattr(self.was, name)
        }
        for name in DOCUMENTS:
            if changes.get(name) is not None:
                changes[name] = encode(changes[name]).decode()
        if "archived" in changes:
            changes["archived"] = int(changes["archived"])
        sql = (
            f"UPDATE chats SET {', '.join(f'{name} = :{name}' for name in changes)} "
            "WHERE id = :id AND snapshot_version = :was AND epoch = :held"
        )
        held = {"id": self.chat.id, "was": self.was.snapshot_version, "held": self.was.epoch}
        return sql, changes | held

    def _tell(self, children_rest: bool) -> None:
        """That it changed; and whoever may have something to do now."""
        self.tx.tell(Changed(self.chat.id, self.version))
        if self.chat.worker_id is None and runnable(self.chat, self.now, children_rest):
            self.tx.tell(Claimable(self.chat.id))
        if self.chat.parent_id is not None and self.was.busy and not self.chat.busy:
            self.tx.tell(Claimable(self.chat.parent_id))  # it may wait for just this child

    def _rest_or_run(self, children_rest: bool) -> None:
        """What is not runnable belongs to nobody; what becomes runnable waits from now on.

        A worker that has a chat because of its deadline keeps it, whatever people do meanwhile.
        """
        if self.chat.status in (Status.RUNNING, Status.INTERRUPTING) or children_rest:
            if self.chat.runnable_since is None:
                self.set(runnable_since=self.now)
        elif self.chat.status is not self.was.status or self.transition is Transition.EXPIRE:
            self.set(worker_id=None, runnable_since=None)


async def close_all(tx: Tx, many: Sequence[Locked]) -> list[Chat]:
    """The same for several chats that this transaction has locked and wants to change, with as few
    statements as there are different ones. Nobody counts their rows: the locks vouch for them."""
    statements: dict[str, list[dict[str, Any]]] = {}
    for locked in many:
        sql, values = locked._ended(children_rest=False)
        statements.setdefault(sql, []).append(values)
    for sql, every in statements.items():
        await tx.execute_many(sql, every)
    for locked in many:
        locked._tell(children_rest=False)
    return [locked.chat for locked in many]


INSERT_MESSAGE: Final = """
    INSERT INTO messages (chat_id, number, revision, role, kind, visibility, body, author, epoch,
                          runtime, input, output, reasoning, cache_read, cache_write, cost,
                          created_at)
    VALUES (:chat_id, :number, :revision, :role, :kind, :visibility, :body, :author, :epoch,
            :runtime, :input, :output, :reasoning, :cache_read, :cache_write, :cost, :created_at)
    """


def message_row(
    chat: str,
    number: int,
    revision: int,
    message: Message,
    now: int,
    *,
    author: str | None = None,
    epoch: int | None = None,
    runtime: int | None = None,
    charged: bool = True,
) -> dict[str, Any]:
    """A message as its row. One that was copied from another chat is not charged again."""
    usage = (message.usage if charged else None) or NO_USAGE
    return {
        "chat_id": chat,
        "number": number,
        "revision": revision,
        "role": message.role,
        "kind": message.kind,
        "visibility": message.visibility,
        "body": encode(message).decode(),
        "author": author,
        "epoch": epoch,
        "runtime": runtime,
        "input": usage.input,
        "output": usage.output,
        "reasoning": usage.reasoning,
        "cache_read": usage.cache_read,
        "cache_write": usage.cache_write,
        "cost": usage.cost,
        "created_at": now,
    }


class _NoUsage(Struct, frozen=True):
    """Nothing is known of what it cost, which is not the same as nothing."""

    input: int | None = None
    output: int | None = None
    reasoning: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    cost: float | None = None


NO_USAGE: Final = _NoUsage()


OVERLAP: Final = 60_000_000
"""Microseconds that a look goes back behind an earlier one: a transaction that was not committed
then may have a time from before it."""


async def now_of(tx: Tx) -> int:
    """The database's clock."""
    row = await tx.one(f"SELECT {tx.dialect.now}")
    assert row is not None
    return int(row[0])


async def lock(tx: Tx, chat_id: str) -> Locked:
    """Lock a chat for a change."""
    row = await tx.one(
        f"SELECT {tx.dialect.now}, {', '.join(NAMES)} FROM chats WHERE id = :id {tx.dialect.lock}",
        {"id": chat_id},
    )
    if row is None:
        raise ChatNotFound(chat_id)
    return Locked(tx, chat_of(row[1:]), row[0])


async def lock_if_there(tx: Tx, chat_id: str) -> Locked | None:
    """Lock a chat that was there a moment ago, and may have been deleted by who held its lock."""
    try:
        return await lock(tx, chat_id)
    except ChatNotFound:
        return None


async def begin(tx: Tx, chat_id: str, transition: Transition) -> Locked:
    """Lock a chat for a transition that its status allows."""
    locked = await lock(tx, chat_id)
    if locked.chat.archived:
        raise ChatArchived(chat_id)
    check(locked.chat.status, transition)
    locked.transition = transition
    return locked


async def begin_fenced(tx: Tx, fence: Fence, transition: Transition) -> Locked:
    """Lock a chat for its runner, if everything is still as the runner left it."""
    try:
        locked = await lock(tx, fence.chat)
    except ChatNotFound:
        raise Fenced from None
    if fence_of(locked.chat) != fence or locked.chat.worker_id is None:
        raise Fenced
    check(locked.chat.status, transition)
    locked.transition = transition
    return locked


def fence_of(chat: Chat) -> Fence:
    return Fence(chat.id, chat.epoch, chat.status, chat.history_version, chat.attempt)


async def read_chat(tx: Tx, chat_id: str) -> Chat:
    row = await tx.one(f"{SELECT_CHAT} WHERE id = :id", {"id": chat_id})
    if row is None:
        raise ChatNotFound(chat_id)
    return chat_of(row)
