"""Chats: create, list, search, read, change and delete them."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType, field

from holdfast.chat import search
from holdfast.chat.client_tools import check_client_tools
from holdfast.chat.handle import Chat, labels_of, title_of
from holdfast.chat.listing import (
    ChatFilter,
    ReaderChat,
    for_reader,
    list_for_reader,
    read_for_reader,
)
from holdfast.chat.read_marks import Marks, mark, read_marks
from holdfast.chat.rows import ChatRow, Status, read_chat
from holdfast.chat.search import TextQuery
from holdfast.chat.transitions import lifecycle, user
from holdfast.kernel.messages import prepare_to_decode
from holdfast.kernel.model import Effort
from holdfast.server.idempotency import once, stored_response
from holdfast.server.identity.audit import entry, record
from holdfast.server.operation import ApiCall, operation
from holdfast.server.pagination import cursor_of, cut, position_of
from holdfast.server.problem import BadBody, BadRequest
from holdfast.server.shared_request_types import (
    MAX_SAFE_INTEGER,
    ChatLabels,
    ClientTools,
    CursorText,
    Id,
    Limit,
    ModelName,
    Name,
    PromptBody,
    RequestStruct,
    Title,
    client_tools_of,
    prompt_of,
)
from holdfast.store.database import Tx


class CreateChat(RequestStruct, frozen=True):
    """A chat to create."""

    prompt: PromptBody | None = None
    """First message; None: the chat waits for one."""
    agent: Name | None = None
    """Name of the agent; None: the server's first."""
    title: Title | None = None
    labels: ChatLabels = field(default_factory=dict)
    model: ModelName | None = None
    effort: Effort | None = None
    client_tools: ClientTools = ()
    """Additional tools of this chat. Each call of one becomes a pending action of kind `client`,
    which a client answers with its result."""


@operation("POST", "/chats", "Create a chat", status=201)
async def create_chat(call: ApiCall, body: CreateChat) -> ReaderChat:
    chat = await call.server.host.create(
        None if body.prompt is None else await prompt_of(call, body.prompt),
        agent=body.agent,
        title=body.title,
        labels=body.labels,
        owner=call.user,
        model=body.model,
        effort=body.effort,
        client_tools=client_tools_of(body.client_tools),
        key=call.key,
    )
    return for_reader(chat.first)


# --- lists ---


class ListChats(RequestStruct, frozen=True):
    """Query of `GET /chats`."""

    q: (
        Annotated[
            str, Meta(min_length=1, max_length=500, description="words in titles and messages")
        ]
        | None
    ) = None
    label: (
        Annotated[str, Meta(min_length=1, max_length=321, description="`name`, or `name:value`")]
        | None
    ) = None
    status: Status | None = None
    agent: Name | None = None
    parent: Id | None = None
    archived: bool = False
    pinned: bool | None = None
    shared: bool | None = None
    """True: only chats that others share with the caller. False: only the caller's own."""
    before: Id | None = None
    """Id of the last chat seen: an alternative to `cursor`."""
    cursor: CursorText | None = None
    limit: Limit = 50


class ChatPage(Struct, frozen=True):
    """A page of chats, newest first."""

    chats: tuple[ReaderChat, ...]
    next: str | None
    """Cursor of the next page; None on the last page."""
    complete: bool = True
    """False if a search did not cover everything yet: repeat it to search further."""


@operation("GET", "/chats", "List the caller's chats and those shared with them, or search them")
async def list_chats(call: ApiCall, query: ListChats) -> ChatPage:
    """Newest first. Child chats are listed by `parent`."""
    if query.before is not None and query.cursor is not None:
        raise BadRequest("?before and ?cursor exclude each other: send one of them")
    looked, complete = None, True
    if query.q is not None:
        looked = search.parse_query(query.q)
        if looked is None:
            raise BadRequest("?q has no word in it: use letters or digits")
        complete = await search.catch_up(call.server.db)
    if query.parent is not None and not await _may_read(call, query.parent):
        return ChatPage((), None, complete)
    wanted = _wanted(call, query, looked)
    limits = call.server.host.feed.stranded_limits
    rows = await call.server.db.read(lambda tx: list_for_reader(tx, wanted, limits))
    page, more = cut(rows, query.limit)
    return ChatPage(page, cursor_of("chats", page[-1].id) if more else None, complete)


async def _may_read(call: ApiCall, chat: str) -> bool:
    assert call.caller is not None
    return await call.server.identity.access(call.caller, chat) is not None


def _wanted(call: ApiCall, query: ListChats, looked: TextQuery | None) -> ChatFilter:
    name, colon, value = (query.label or "").partition(":")
    return ChatFilter(
        reader=call.user,
        shared=query.shared,
        parent=query.parent,
        archived=query.archived,
        status=query.status,
        agent=query.agent,
        label=(name, value if colon else None) if query.label is not None else None,
        pinned=query.pinned,
        search=looked,
        before=query.before or position_of("chats", query.cursor),
        limit=query.limit + 1,
    )


# --- one ---


@operation("GET", "/chats/{chat}", "Read a chat")
async def read_one(call: ApiCall, chat: Id) -> ReaderChat:
    limits = call.server.host.feed.stranded_limits

    async def read(tx: Tx) -> ReaderChat:
        return await read_for_reader(tx, call.user, await read_chat(tx, chat), limits)

    return await call.server.db.read(read)


class ChangeChat(RequestStruct, frozen=True):
    """Changes of a chat; absent fields keep their values."""

    title: Title | UnsetType | None = UNSET
    """New title; None removes it, and the next turn writes a new one."""
    labels: ChatLabels | UnsetType = UNSET
    """New labels, which replace all."""
    archived: bool | UnsetType = UNSET
    pinned: bool | UnsetType = UNSET
    """Whether the chat is pinned, for the caller alone."""
    agent: Name | UnsetType = UNSET
    """Name of the agent that continues the chat: from the next step on, or once the open calls of
    the current agent have ended."""
    model: ModelName | UnsetType | None = UNSET
    """New model; None: the agent's own."""
    effort: Effort | UnsetType | None = UNSET
    client_tools: ClientTools | UnsetType = UNSET
    """Tools that replace all that were declared for this chat, from its next step on."""


@operation("PATCH", "/chats/{chat}", "Change a chat: all given fields, or none")
async def change_chat(call: ApiCall, chat: Chat, body: ChangeChat) -> ReaderChat:
    changes = _changes(body)
    unchanged = (body.archived, body.pinned, body.agent, body.client_tools)
    if not changes and all(value is UNSET for value in unchanged):
        fields = ", ".join(ChangeChat.__struct_fields__)
        raise BadBody(f"there is nothing to change: send one of {fields}")
    agent = chat.agent
    if body.agent is not UNSET:
        agent = changes["agent"] = call.server.host.agent(body.agent).name
    call.server.host.check_choice(agent, changes.get("model"), changes.get("effort"))
    if body.client_tools is not UNSET:
        changes["client_tools"] = check_client_tools(
            call.server.host.agent(agent), client_tools_of(body.client_tools)
        )

    async def change(tx: Tx) -> ReaderChat:
        row = await _change(tx, await read_chat(tx, chat.id), changes, body.archived)
        if body.pinned is not UNSET:
            await mark(tx, call.user, row, pinned=body.pinned)
        return await read_for_reader(tx, call.user, row)

    return await once(call, f"change {chat.id}", body, ReaderChat, change)


def _changes(body: ChangeChat) -> dict[str, Any]:
    """Changes of the chat's row."""
    changes: dict[str, Any] = {}
    if body.title is not UNSET:
        changes["title"] = title_of(body.title)
    if body.labels is not UNSET:
        changes["labels"] = labels_of(body.labels)
    if body.model is not UNSET:
        changes["model"] = body.model
    if body.effort is not UNSET:
        changes["effort"] = body.effort
    return changes


async def _change(
    tx: Tx, row: ChatRow, changes: dict[str, Any], archived: bool | UnsetType
) -> ChatRow:
    """A chat is unarchived before, and archived after, its other changes."""
    if archived is False and row.archived:
        row = await lifecycle.unarchive(tx, row.id)
    if changes:
        row = await user.update(tx, row.id, changes)
    if archived is True and not row.archived:
        row = await lifecycle.archive(tx, row.id)
    return row


async def was_deleted(call: ApiCall, chat: Id) -> bool:
    """Whether this request has already deleted the chat."""
    return await stored_response(call, f"delete {chat}", None, tuple[str, ...]) is not None


@operation(
    "DELETE",
    "/chats/{chat}",
    "Delete a chat permanently, with its child chats",
    was_done=was_deleted,
)
async def delete_chat(call: ApiCall, chat: Id) -> None:
    async def delete(tx: Tx) -> tuple[str, ...]:
        deleted = await lifecycle.delete(tx, chat)
        await record(tx, entry(call, "chat.delete", chat, below=deleted[1:]))
        return deleted

    await once(call, f"delete {chat}", None, tuple[str, ...], delete)


# --- read state ---


class ReadUpTo(RequestStruct, frozen=True):
    """How far the caller has read."""

    number: Annotated[int, Meta(ge=0, le=MAX_SAFE_INTEGER)]
    """Number of the last message read; 0 for none."""


@operation("PUT", "/chats/{chat}/read", "Record how far the caller has read")
async def mark_read(call: ApiCall, chat: Id, body: ReadUpTo) -> Marks:
    async def change(tx: Tx) -> Marks:
        row = await read_chat(tx, chat)
        await mark(tx, call.user, row, read=body.number)
        return (await read_marks(tx, call.user, [row]))[chat]

    return await once(call, f"read {chat}", body, Marks, change)


prepare_to_decode(Marks)
