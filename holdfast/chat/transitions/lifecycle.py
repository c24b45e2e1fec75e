"""The life cycle of chats: create, spawn, fork, restore, archive, delete."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias, Union, assert_never

from msgspec import Struct
from msgspec.structs import replace

from holdfast.chat.budgets import set_budget
from holdfast.chat.causes import current_cause
from holdfast.chat.client_tools import ClientTool
from holdfast.chat.deleted_or_unshared import note_deleted
from holdfast.chat.errors import (
    ChatArchived,
    ChatNotFound,
    FamilyBusy,
    InvalidInput,
    MessageNotFound,
    NotAPrompt,
    NotArchived,
    NotARoot,
    TooDeep,
)
from holdfast.chat.files import lock_files
from holdfast.chat.history_invariants import Complaint, Walk, checkpoints, edits
from holdfast.chat.journal import answer_open
from holdfast.chat.locked_chat import LockedChat, lock, lock_if_exists
from holdfast.chat.message_rows import INSERT_MESSAGE, message_row
from holdfast.chat.rows import (
    CHAT_COLUMNS,
    ChatRow,
    Queued,
    Status,
    Stored,
    can_hold,
    chat_of,
    check_text,
    read_chat,
)
from holdfast.chat.spending_counters import keep_spending
from holdfast.chat.state_machine import Transition, check
from holdfast.chat.transitions import user
from holdfast.chat.transitions.interrupt import interrupt_tree
from holdfast.kernel.messages import Message, ToolCall, encode
from holdfast.kernel.tool import HandOff
from holdfast.store.database import Changed, Claimable, Tx

MAX_DEPTH: Final = 3
MAX_CHILDREN: Final = 32
FIRST_VERSION: Final = 1
"""Version of a new chat."""
INSERT_BATCH: Final = 200
"""Maximum number of rows inserted with one call."""
INSERT_BATCH_CHARACTERS: Final = 512 * 1024
"""Maximum total characters of the bodies inserted with one call, except for a single larger one."""
LATEST_TIME: Final = 2**53
"""Latest storable time in microseconds; every database and JSON parser can represent it."""


class NewChat(Struct, frozen=True, kw_only=True):
    """The values of a chat to be created."""

    id: str
    agent: str
    message: Message | None
    """The first message. A chat without one is idle."""
    owner: str = ""
    author: str | None = None
    title: str | None = None
    labels: Mapping[str, str] = {}
    model: str | None = None
    effort: str | None = None
    workspace: str | None = None
    client_tools: tuple[ClientTool, ...] = ()


async def create(tx: Tx, new_chat: NewChat) -> ChatRow:
    """Create a chat. It is runnable if it has a message, and idle otherwise."""
    if new_chat.message is not None:
        await lock_files(tx, new_chat.owner, new_chat.message)
    return await _insert_with_message(tx, new_chat)


async def _insert_with_message(
    tx: Tx, new_chat: NewChat, parent: ChatRow | None = None, spawned_by: str | None = None
) -> ChatRow:
    """Insert a chat at version 1 with its first message.

    Equivalent to `_insert`, `append` and `close`, without writing the row twice.
    """
    chat = await _write(tx, new_chat, parent, spawned_by, version=1)
    tx.notify(Changed(chat.id, 1))
    if new_chat.message is not None:
        author = new_chat.author if new_chat.message.kind == "prompt" else None
        row = message_row(chat.id, 1, 1, new_chat.message, chat.created_at, author=author)
        await tx.execute_many(INSERT_MESSAGE, [row])
        tx.notify(Claimable(chat.id))
    return chat


async def _insert(tx: Tx, new_chat: NewChat) -> LockedChat:
    """Insert the row of a chat at version 0; its messages follow in the same transaction."""
    chat = await _write(tx, new_chat, version=0)
    return LockedChat(tx, chat, chat.created_at)


async def _write(
    tx: Tx,
    new_chat: NewChat,
    parent: ChatRow | None = None,
    spawned_by: str | None = None,
    *,
    version: int,
) -> ChatRow:
    for name in ("owner", "title", "model", "effort"):
        check_text(name, getattr(new_chat, name))
    runs = version > 0 and new_chat.message is not None
    values: dict[str, Any] = {
        "id": new_chat.id,
        "owner": new_chat.owner,
        "agent": new_chat.agent,
        "title": new_chat.title,
        "titled_by": None if new_chat.title is None else "person",
        "labels": encode(new_chat.labels).decode(),
        "model": new_chat.model,
        "effort": new_chat.effort,
        "workspace": new_chat.workspace,
        "client_tools": encode(new_chat.client_tools).decode() if new_chat.client_tools else None,
        "parent_id": None if parent is None else parent.id,
        "root_id": new_chat.id if parent is None else parent.root_id,
        "spawned_by": spawned_by,
        "depth": 0 if parent is None else parent.depth + 1,
        "status": Status.RUNNING if runs else Status.IDLE,
        "snapshot_version": version,
        "history_version": version if runs else 0,
        "queue_version": 0,
        "messages": 1 if runs else 0,
        "causes": current_cause() if runs else None,
    }
    now = tx.dialect.now
    row = await tx.one(
        f"""
        INSERT INTO chats ({", ".join(values)}, runnable_since, created_at, updated_at)
        VALUES ({", ".join(f":{n}" for n in values)}, {now if runs else "NULL"}, {now}, {now})
        RETURNING {", ".join(CHAT_COLUMNS)}
        """,
        values,
    )
    assert row is not None
    return chat_of(row)


async def _close_with_prompt(locked: LockedChat, new_chat: NewChat) -> ChatRow:
    if new_chat.message is not None:
        await locked.append([new_chat.message], author=new_chat.author)
        locked.set(status=Status.RUNNING)
    return await locked.close()


# --- children ---


class Spawn(Struct, frozen=True):
    """Create a child chat."""

    new_chat: NewChat


class SendTo(Struct, frozen=True):
    """Send a message to a child chat."""

    chat: str
    message: Queued


class Interrupt(Struct, frozen=True):
    """Interrupt a child chat."""

    chat: str


Write: TypeAlias = Union[Spawn, SendTo, Interrupt, HandOff]
"""A write requested by a call with effect `commit`, committed together with its result."""


async def carry_out(parent: LockedChat, call_id: str, writes: Sequence[Write]) -> None:
    """Carry out the writes of a call on this chat and its children."""
    for write in writes:
        match write:
            case Spawn(new_chat):
                await spawn(parent, call_id, new_chat)
            case SendTo(chat, message):
                await _lock_down_to(parent, chat)
                await user.send(parent.tx, chat, message)
            case Interrupt(chat):
                await _lock_down_to(parent, chat)
                child = await lock(parent.tx, chat)
                await interrupt_tree(child)
                await child.close()
            case HandOff(agent):
                parent.set(next_agent=agent)
            case _:
                assert_never(write)


async def spawn(parent: LockedChat, call_id: str, new_chat: NewChat) -> None:
    """Create a child chat for a call."""
    if parent.chat.depth >= MAX_DEPTH:
        raise TooDeep("generations of children", MAX_DEPTH)
    row = await parent.tx.one(
        "SELECT count(*) FROM chats WHERE root_id = :root", {"root": parent.chat.root_id}
    )
    if row is not None and row[0] > MAX_CHILDREN:
        raise TooDeep("children", MAX_CHILDREN)
    new_chat = replace(new_chat, owner=parent.chat.owner)
    await _insert_with_message(parent.tx, new_chat, parent.chat, call_id)


async def _lock_down_to(parent: LockedChat, chat_id: str) -> None:
    """Lock every chat from `parent` down to one below it, in the order that avoids deadlocks."""
    if not can_hold(chat_id):
        raise ChatNotFound(chat_id)
    rows = await parent.tx.fetch(
        """
        WITH RECURSIVE above (id, parent_id, depth) AS (
            SELECT id, parent_id, depth FROM chats WHERE id = :id
            UNION SELECT c.id, c.parent_id, c.depth FROM chats c JOIN above a ON c.id = a.parent_id
        )
        SELECT id FROM above WHERE depth >= :depth ORDER BY depth
        """,
        {"id": chat_id, "depth": parent.chat.depth},
    )
    top, *path = [row[0] for row in rows] or [None]
    if top != parent.chat.id or not path:
        raise ChatNotFound(chat_id)
    for id in path:
        await lock(parent.tx, id)


# --- copies ---


async def fork(tx: Tx, chat_id: str, number: int, new_chat: NewChat) -> ChatRow:
    """Create a chat with the live history up to message `number`.

    With a new prompt, the history ends before that message.
    """
    source = (await lock(tx, chat_id)).chat
    await _check_message(tx, chat_id, number, prompt=new_chat.message is not None)
    if new_chat.message is not None:
        await lock_files(tx, new_chat.owner, new_chat.message)
    locked = await _insert(tx, new_chat)
    last_number = number if new_chat.message is None else number - 1
    copied_count = await tx.execute(
        """
        INSERT INTO messages (chat_id, number, revision, role, kind, visibility, body, author,
                              runtime, created_at)
        SELECT :new, row_number() OVER (ORDER BY number), :version, role, kind, visibility, body,
               author, runtime, created_at
          FROM messages
         WHERE chat_id = :source AND number <= :last AND superseded_at IS NULL
        """,
        {"new": new_chat.id, "source": source.id, "last": last_number, "version": locked.version},
    )
    if copied_count:
        locked.set(messages=copied_count, history_version=locked.version)
    await answer_open(locked, "forked")
    return await _close_with_prompt(locked, new_chat)


class RestoredRows(Struct, frozen=True):
    """Exported messages as rows of a new chat."""

    messages: Sequence[dict[str, Any]]
    superseded: Sequence[dict[str, Any]]


def rows_of(chat_id: str, messages: Sequence[Stored]) -> RestoredRows:
    """Validate and encode exported messages. Slow for many: do not call it on the event loop."""
    _check_exported(messages)
    rows = [
        message_row(
            chat_id,
            stored.number,
            FIRST_VERSION,
            stored.message,
            stored.created_at,
            author=stored.author,
            charged=False,
        )
        for stored in messages
    ]
    superseded = [
        {"id": chat_id, "number": stored.number, "at": stored.superseded_at}
        for stored in messages
        if stored.superseded_at is not None
    ]
    return RestoredRows(rows, superseded)


async def restore(tx: Tx, new_chat: NewChat, rows: RestoredRows) -> ChatRow:
    """Create an idle chat with exported messages under the same numbers."""
    locked = await _insert(tx, new_chat)
    assert locked.version == FIRST_VERSION
    for batch in batches(rows.messages):
        await tx.execute_many(INSERT_MESSAGE, batch)
    await tx.execute_many(
        "UPDATE messages SET superseded_at = :at WHERE chat_id = :id AND number = :number",
        rows.superseded,
    )
    if rows.messages:
        locked.set(messages=len(rows.messages), history_version=locked.version)
    await answer_open(locked, "forked")
    return await _close_with_prompt(locked, new_chat)


def batches(
    rows: Sequence[dict[str, Any]], limit: int = INSERT_BATCH, size: int = INSERT_BATCH_CHARACTERS
) -> Iterator[Sequence[dict[str, Any]]]:
    """Split rows into batches that are sent without blocking the event loop for long."""
    start = length = 0
    for index, row in enumerate(rows):
        length += len(row["body"])
        if index > start and (length > size or index - start == limit):
            yield rows[start:index]
            start, length = index, len(row["body"])
    if start < len(rows):
        yield rows[start:]


def _check_exported(messages: Sequence[Stored]) -> None:
    if [stored.number for stored in messages] != list(range(1, len(messages) + 1)):
        raise InvalidInput("messages are numbered from 1 without a gap: export the chat again")
    for stored in messages:
        check_text("author", stored.author)
        for part in stored.message.parts:
            if isinstance(part, ToolCall):
                check_text("id of a call", part.id)
                check_text("name of a tool", part.tool)
        times = (stored.created_at, stored.superseded_at or 0, stored.message.runtime or 0)
        if not all(0 <= time < LATEST_TIME for time in times):
            raise InvalidInput(f"message {stored.number} has a time that cannot be stored")
    for _, where, description in _complaints(messages):
        raise InvalidInput(f"{where}: {description}: export the chat again")


def _complaints(messages: Sequence[Stored]) -> Iterator[Complaint]:
    """Yield what the doctor would report about the history. Calls open at its end get a result."""
    live = [(stored.number, stored.message) for stored in messages if stored.superseded_at is None]
    walk = Walk()
    yield from edits((m.number, m.message.kind, m.superseded_at is not None) for m in messages)
    for number, message in live:
        yield from walk.add(number, message)
    yield from checkpoints(live, walk)


async def _check_message(tx: Tx, chat_id: str, number: int, *, prompt: bool) -> None:
    row = await tx.one(
        """
        SELECT kind FROM messages
         WHERE chat_id = :id AND number = :number AND superseded_at IS NULL
        """,
        {"id": chat_id, "number": number},
    )
    if row is None:
        raise MessageNotFound(number)
    if prompt and row[0] != "prompt":
        raise NotAPrompt(number, row[0], fork=True)


# --- operations on a chat and all chats below it ---


async def _lock_subtree(tx: Tx, chat_id: str) -> list[LockedChat]:
    """Lock a chat and all chats below it, from the top down.

    The children of a chat are read once it is locked: until then it may still spawn.
    """
    members = [await lock(tx, chat_id)]
    for member in members:  # grows while it is read
        rows = await tx.fetch(
            "SELECT id FROM chats WHERE parent_id = :id ORDER BY id", {"id": member.chat.id}
        )
        children = [await lock_if_exists(tx, row[0]) for row in rows]
        members.extend(child for child in children if child is not None)
    return members


async def archive(tx: Tx, chat_id: str) -> ChatRow:
    """Archive a chat with all chats below it."""
    members = await _lock_subtree(tx, chat_id)
    if members[0].chat.archived:
        raise ChatArchived(chat_id)
    check(members[0].chat.status, Transition.ARCHIVE)
    for member in members:
        if member.chat.busy:
            raise FamilyBusy(member.chat.id, member.chat.status)
        if member.chat.archived:
            member.discard()
        member.set(archived=True)
        await _void_approvals(member)
    return await _close_all(members)


async def _void_approvals(locked: LockedChat) -> None:
    """Void approvals, so that they are requested again. The row of a started call is kept."""
    id = {"id": locked.chat.id}
    await locked.tx.execute(
        "DELETE FROM tool_calls WHERE chat_id = :id AND state = 'approved' AND started_at IS NULL",
        id,
    )
    await locked.tx.execute(
        "UPDATE tool_calls SET state = 'waiting', approved = NULL"
        " WHERE chat_id = :id AND state = 'approved'",
        id,
    )


async def unarchive(tx: Tx, chat_id: str) -> ChatRow:
    """Unarchive a chat with all chats below it."""
    members = await _lock_subtree(tx, chat_id)
    top = members[0].chat
    if not top.archived:
        raise NotArchived(chat_id)
    if top.parent_id is not None and (await read_chat(tx, top.parent_id)).archived:
        raise NotARoot(chat_id, top.parent_id)
    for member in members:
        if not member.chat.archived:
            member.discard()
        member.set(archived=False)
    return await _close_all(members)


async def _close_all(members: Sequence[LockedChat]) -> ChatRow:
    first, *_ = [await member.close() for member in members]
    return first


async def delete(tx: Tx, chat_id: str) -> tuple[str, ...]:
    """Delete a chat for good, with all chats below it; returns their ids."""
    members = await _lock_subtree(tx, chat_id)
    for member in members:
        if member.chat.status in (Status.RUNNING, Status.INTERRUPTING):
            raise FamilyBusy(member.chat.id, member.chat.status)
    for member in reversed(members):
        await note_deleted(tx, member.chat.id)
        await keep_spending(tx, member.chat.id)
        await tx.execute("DELETE FROM tool_calls WHERE chat_id = :id", {"id": member.chat.id})
        await set_budget(tx, "chat", member.chat.id, None)
        await tx.execute("DELETE FROM chats WHERE id = :id", {"id": member.chat.id})
        tx.notify(Changed(member.chat.id, member.version))
    parent = members[0].chat.parent_id
    if parent is not None:
        tx.notify(Claimable(parent))
    return tuple(member.chat.id for member in members)
