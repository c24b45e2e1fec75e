"""Chats begin, come from others (spawned, forked), and go with all of theirs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from json import loads
from typing import Any, Final, TypeAlias, Union

from msgspec import Struct, json
from msgspec.structs import replace

from holdfast.chat import people
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
from holdfast.chat.files import hold_files
from holdfast.chat.gone import note_deleted
from holdfast.chat.journal import answer_open
from holdfast.chat.locked import (
    INSERT_MESSAGE,
    Locked,
    lock,
    lock_if_there,
    message_row,
    read_chat,
)
from holdfast.chat.sequence import Complaint, Walk, checkpoints, edits
from holdfast.chat.state import (
    IS_BUSY,
    NAMES,
    Chat,
    Queued,
    Status,
    Stored,
    can_hold,
    chat_of,
    check_text,
    document,
)
from holdfast.chat.stop import stop
from holdfast.chat.table import Transition, check
from holdfast.kernel.errors import Failure
from holdfast.kernel.events import Action
from holdfast.kernel.messages import Message, ToolCall, ToolResult, encode
from holdfast.kernel.results import content
from holdfast.store.database import Changed, Claimable, Tx

MAX_DEPTH: Final = 3
MAX_CHILDREN: Final = 32
LATEST: Final = 2**53
"""Microseconds; far beyond every clock, and within every integer."""


class NewChat(Struct, frozen=True, kw_only=True):
    """A chat that is to be."""

    id: str
    agent: str
    message: Message | None
    """What it begins with. A chat without is idle."""
    owner: str = ""
    author: str | None = None
    title: str | None = None
    labels: Mapping[str, str] = {}
    model: str | None = None
    effort: str | None = None
    workspace: str | None = None


async def create(tx: Tx, new: NewChat) -> Chat:
    """A chat begins, and wants a worker."""
    if new.message is not None:
        await hold_files(tx, new.owner, new.message)
    return await _begin(tx, new)


async def _begin(
    tx: Tx, new: NewChat, parent: Chat | None = None, spawned_by: str | None = None
) -> Chat:
    """A chat at version 1, with what it begins with: as `_insert`, `append` and `close` make it,
    without writing its row twice."""
    chat = await _write(tx, new, parent, spawned_by, version=1)
    tx.tell(Changed(chat.id, 1))
    if new.message is not None:
        author = new.author if new.message.kind == "prompt" else None
        row = message_row(chat.id, 1, 1, new.message, chat.created_at, author=author)
        await tx.execute_many(INSERT_MESSAGE, [row])
        tx.tell(Claimable(chat.id))
    return chat


async def _insert(tx: Tx, new: NewChat) -> Locked:
    """The bare row of a chat, at version 0: the rest follows in the same transaction."""
    chat = await _write(tx, new, version=0)
    return Locked(tx, chat, chat.created_at)


async def _write(
    tx: Tx,
    new: NewChat,
    parent: Chat | None = None,
    spawned_by: str | None = None,
    *,
    version: int,
) -> Chat:
    for name in ("owner", "title", "model", "effort"):
        check_text(name, getattr(new, name))
    runs = version > 0 and new.message is not None
    values: dict[str, Any] = {
        "id": new.id,
        "owner": new.owner,
        "agent": new.agent,
        "title": new.title,
        "titled_by": None if new.title is None else "person",
        "labels": encode(new.labels).decode(),
        "model": new.model,
        "effort": new.effort,
        "workspace": new.workspace,
        "parent_id": None if parent is None else parent.id,
        "root_id": new.id if parent is None else parent.root_id,
        "spawned_by": spawned_by,
        "depth": 0 if parent is None else parent.depth + 1,
        "status": Status.RUNNING if runs else Status.IDLE,
        "snapshot_version": version,
        "history_version": version if runs else 0,
        "queue_version": 0,
        "messages": 1 if runs else 0,
    }
    now = tx.dialect.now
    row = await tx.one(
        f"""
        INSERT INTO chats ({", ".join(values)}, runnable_since, created_at, updated_at)
        VALUES ({", ".join(f":{n}" for n in values)}, {now if runs else "NULL"}, {now}, {now})
        RETURNING {", ".join(NAMES)}
        """,
        values,
    )
    assert row is not None
    return chat_of(row)


async def _close_with_prompt(locked: Locked, new: NewChat) -> Chat:
    if new.message is not None:
        await locked.append([new.message], author=new.author)
        locked.set(status=Status.RUNNING)
    return await locked.close()


# --- children ---


class Spawn(Struct, frozen=True):
    """A child is created."""

    new: NewChat


class SendTo(Struct, frozen=True):
    """A child is told something."""

    chat: str
    message: Queued


class Interrupt(Struct, frozen=True):
    """A child is stopped."""

    chat: str


Write: TypeAlias = Union[Spawn, SendTo, Interrupt]
"""What a call with effect `commit` wants done, together with its result."""


async def carry_out(parent: Locked, call_id: str, writes: Sequence[Write]) -> None:
    """Do what a call wants done to children of this chat."""
    for write in writes:
        match write:
            case Spawn(new):
                await _spawn(parent, call_id, new)
            case SendTo(chat, message):
                await _lock_down_to(parent, chat)
                await people.send(parent.tx, chat, message)
            case Interrupt(chat):
                await _lock_down_to(parent, chat)
                child = await lock(parent.tx, chat)
                await stop(child)
                await child.close()


async def _spawn(parent: Locked, call_id: str, new: NewChat) -> None:
    if parent.chat.depth >= MAX_DEPTH:
        raise TooDeep("generations of children", MAX_DEPTH)
    row = await parent.tx.one(
        "SELECT count(*) FROM chats WHERE root_id = :root", {"root": parent.chat.root_id}
    )
    if row is not None and row[0] > MAX_CHILDREN:
        raise TooDeep("children", MAX_CHILDREN)
    new = replace(new, owner=parent.chat.owner)
    await _begin(parent.tx, new, parent.chat, call_id)


async def _lock_down_to(parent: Locked, chat_id: str) -> None:
    """Lock every chat from this one down to one below it, as whoever comes through them does."""
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


async def children_rest(tx: Tx, chat_id: str, call_id: str | None = None) -> bool:
    """Whether it waits for children, and all of them are at rest."""
    row = await tx.one(
        f"""
        SELECT count(*),
               sum(CASE WHEN c.{IS_BUSY} THEN 1 ELSE 0 END)
          FROM awaited a JOIN chats c ON c.id = a.child_id
         WHERE a.chat_id = :id {"" if call_id is None else "AND a.call_id = :call"}
        """,
        {"id": chat_id} if call_id is None else {"id": chat_id, "call": call_id},
    )
    return row is not None and not row[1]


async def report_of_children(tx: Tx, chat_id: str, asked: Action) -> ToolResult | None:
    """What came of the children that a call waits for, once all are at rest."""
    call = asked.call
    if not await children_rest(tx, chat_id, call.id):
        return None
    rows = await tx.fetch(
        """
        SELECT c.id, c.title, c.status, c.error,
               (SELECT m.body FROM messages m
                 WHERE m.chat_id = c.id AND m.superseded_at IS NULL AND m.kind = 'answer'
                   AND m.visibility <> 'user'
                 ORDER BY m.number DESC LIMIT 1)
          FROM awaited a JOIN chats c ON c.id = a.child_id
         WHERE a.chat_id = :id AND a.call_id = :call ORDER BY c.created_at, c.id
        """,
        {"id": chat_id, "call": call.id},
    )
    known = {row[0] for row in rows}
    unknown = [(id, None, "unknown", None, None) for id in awaited_by(asked) if id not in known]
    return ToolResult(call.id, call.tool, content(_report([*rows, *unknown])))


def awaited_by(asked: Action) -> list[str]:
    """The chats that a call waits for, as its arguments name them once they were put right."""
    # As a database can hold them: what it cannot hold is no chat's id.
    arguments = json.decode(encode(loads(asked.arguments)))
    agents = arguments.get("agents") if isinstance(arguments, dict) else None
    return [one for one in agents if isinstance(one, str)] if isinstance(agents, list) else []


def _report(rows: Sequence[Any]) -> list[dict[str, Any]]:
    reports = []
    for id, title, status, error, body in rows:
        report: dict[str, Any] = {"agent": id, "status": status}
        if title is not None:
            report["title"] = title
        if error is not None:
            report["error"] = document(id, "error", error, Failure).message
        if body is not None:
            report["answer"] = document(id, "last answer", body, Message).text
        reports.append(report)
    return reports


# --- copies ---


async def fork(tx: Tx, chat_id: str, number: int, new: NewChat) -> Chat:
    """A new chat with the live history up to a message; up to before it, with a prompt."""
    source = (await lock(tx, chat_id)).chat
    await _check_place(tx, chat_id, number, prompt=new.message is not None)
    if new.message is not None:
        await hold_files(tx, new.owner, new.message)
    locked = await _insert(tx, new)
    last = number if new.message is None else number - 1
    copied = await tx.execute(
        """
        INSERT INTO messages (chat_id, number, revision, role, kind, visibility, body, author,
                              runtime, created_at)
        SELECT :new, row_number() OVER (ORDER BY number), :version, role, kind, visibility, body,
               author, runtime, created_at
          FROM messages
         WHERE chat_id = :source AND number <= :last AND superseded_at IS NULL
        """,
        {"new": new.id, "source": source.id, "last": last, "version": locked.version},
    )
    if copied:
        locked.set(messages=copied, history_version=locked.version)
    await answer_open(locked, "forked")
    return await _close_with_prompt(locked, new)


async def restore(tx: Tx, new: NewChat, messages: Sequence[Stored]) -> Chat:
    """A new chat with messages that were exported, under the same numbers. It is idle."""
    _check_exported(messages)
    locked = await _insert(tx, new)
    await tx.execute_many(
        INSERT_MESSAGE,
        [
            message_row(
                new.id,
                stored.number,
                locked.version,
                stored.message,
                stored.created_at,
                author=stored.author,
                charged=False,
            )
            for stored in messages
        ],
    )
    await tx.execute_many(
        "UPDATE messages SET superseded_at = :at WHERE chat_id = :id AND number = :number",
        [
            {"id": new.id, "number": stored.number, "at": stored.superseded_at}
            for stored in messages
            if stored.superseded_at is not None
        ],
    )
    if messages:
        locked.set(messages=len(messages), history_version=locked.version)
    await answer_open(locked, "forked")
    return await _close_with_prompt(locked, new)


def _check_exported(messages: Sequence[Stored]) -> None:
    if [stored.number for stored in messages] != list(range(1, len(messages) + 1)):
        raise InvalidInput("messages are numbered from 1 without a gap: export the chat again")
    for stored in messages:
        check_text("author", stored.author)
        for part in stored.message.parts:
            if isinstance(part, ToolCall):
                check_text("id of a call", part.id)
                check_text("name of a tool", part.tool)
        times = (stored.created_at, stored.superseded_at or 0)
        if not all(0 <= time < LATEST for time in times):
            raise InvalidInput(f"message {stored.number} has a time that cannot be stored")
    for _, where, says in _complaints(messages):
        raise InvalidInput(f"{where}: {says}: export the chat again")


def _complaints(messages: Sequence[Stored]) -> Iterator[Complaint]:
    """What the doctor would say of the history. Calls that are open at its end get a result."""
    live = [(one.number, one.message) for one in messages if one.superseded_at is None]
    walk = Walk()
    yield from edits((m.number, m.message.kind, m.superseded_at is not None) for m in messages)
    for number, message in live:
        yield from walk.add(number, message)
    yield from checkpoints(live, walk)


async def _check_place(tx: Tx, chat_id: str, number: int, *, prompt: bool) -> None:
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
        raise NotAPrompt(number, row[0])


# --- with all children or not at all ---


async def _lock_subtree(tx: Tx, chat_id: str) -> list[Locked]:
    """A chat and all below it, locked from the top down.

    Who belongs to a chat is asked once it is locked: until then it may still spawn.
    """
    members = [await lock(tx, chat_id)]
    for member in members:  # which grows meanwhile
        rows = await tx.fetch(
            "SELECT id FROM chats WHERE parent_id = :id ORDER BY id", {"id": member.chat.id}
        )
        below = [await lock_if_there(tx, row[0]) for row in rows]
        members.extend(child for child in below if child is not None)
    return members


async def archive(tx: Tx, chat_id: str) -> Chat:
    """Put a chat away, with all below it."""
    members = await _lock_subtree(tx, chat_id)
    if members[0].chat.archived:
        raise ChatArchived(chat_id)
    check(members[0].chat.status, Transition.ARCHIVE)
    for member in members:
        if member.chat.busy:
            raise FamilyBusy(member.chat.id, member.chat.status)
        if member.chat.archived:
            member.leave()
        member.set(archived=True)
        # Whoever goes on with it one day is asked again.
        await tx.execute(
            "DELETE FROM tool_calls WHERE chat_id = :id AND state = 'approved'",
            {"id": member.chat.id},
        )
    return await _close_all(members)


async def unarchive(tx: Tx, chat_id: str) -> Chat:
    members = await _lock_subtree(tx, chat_id)
    top = members[0].chat
    if not top.archived:
        raise NotArchived(chat_id)
    if top.parent_id is not None and (await read_chat(tx, top.parent_id)).archived:
        raise NotARoot(chat_id, top.parent_id)
    for member in members:
        if not member.chat.archived:
            member.leave()
        member.set(archived=False)
    return await _close_all(members)


async def _close_all(members: Sequence[Locked]) -> Chat:
    first, *_ = [await member.close() for member in members]
    return first


async def delete(tx: Tx, chat_id: str) -> tuple[str, ...]:
    """Remove a chat for good, with all below it; their ids."""
    members = await _lock_subtree(tx, chat_id)
    for member in members:
        if member.chat.status in (Status.RUNNING, Status.INTERRUPTING):
            raise FamilyBusy(member.chat.id, member.chat.status)
    for member in reversed(members):
        await note_deleted(tx, member.chat.id)
        await tx.execute("DELETE FROM tool_calls WHERE chat_id = :id", {"id": member.chat.id})
        await tx.execute("DELETE FROM chats WHERE id = :id", {"id": member.chat.id})
        tx.tell(Changed(member.chat.id, member.version))
    parent = members[0].chat.parent_id
    if parent is not None:
        tx.tell(Claimable(parent))
    return tuple(member.chat.id for member in members)
