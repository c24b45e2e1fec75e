"""Messages of a chat: read, send and edit them."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from holdfast.chat import queries
from holdfast.chat.handle import Chat, ask
from holdfast.chat.rows import Deliver, Stored
from holdfast.chat.snapshots import Receipt, Revision
from holdfast.chat.stream import MAX_RESULT_SIZE
from holdfast.kernel.model import Effort
from holdfast.server.operation import ApiCall, operation
from holdfast.server.problem import BadRequest
from holdfast.server.shared_request_types import (
    MAX_SAFE_INTEGER,
    Limit,
    MessageNumber,
    ModelName,
    PromptBody,
    RequestStruct,
    prompt_of,
)


class ListMessages(RequestStruct, frozen=True):
    """Query of the messages of a chat."""

    before: MessageNumber | None = None
    """The newest messages before this number; without it and `after`, the newest of all."""
    after: Annotated[int, Meta(ge=0, le=MAX_SAFE_INTEGER)] | None = None
    """The first messages after this number."""
    limit: Limit = 100
    """Most messages on the page; a page of large messages has fewer."""
    superseded: bool = False
    """Include messages that an edit superseded; only for the owner of the chat."""


class MessagePage(Struct, frozen=True):
    """A page of messages, in the order of the conversation."""

    messages: tuple[Stored, ...]
    next: int | None
    """Value of `before` or `after` for the next page; None on the last page."""


@operation("GET", "/chats/{chat}/messages", "Read messages: the newest, or those after a number")
async def list_messages(call: ApiCall, chat: Chat, query: ListMessages) -> MessagePage:
    if query.before is not None and query.after is not None:
        raise BadRequest("?before and ?after exclude each other: send one of them")
    page, more = await ask(
        call.server.db,
        chat.id,
        queries.read_page,
        limit=query.limit,
        size=MAX_RESULT_SIZE,
        before=query.before,
        after=query.after,
        superseded=query.superseded and chat.owner == call.user,
    )
    last = 0 if query.after is None else -1
    return MessagePage(page, page[last].number if more else None)


class SendMessage(RequestStruct, frozen=True):
    """A message to send."""

    prompt: PromptBody
    deliver: Deliver = "queue"
    """When to deliver it if the chat is busy. `queue`: after the turn. `steer`: before its next
    step. `interrupt`: now, interrupting the turn."""
    model: ModelName | None = None
    """Model from this message on."""
    effort: Effort | None = None


@operation("POST", "/chats/{chat}/messages", "Send a message", status=202)
async def send_message(call: ApiCall, chat: Chat, body: SendMessage) -> Receipt:
    return await chat.send(
        await prompt_of(call, body.prompt),
        body.deliver,
        model=body.model,
        effort=body.effort,
        key=call.key,
    )


class EditMessage(RequestStruct, frozen=True):
    """The new text of a message."""

    prompt: PromptBody
    model: ModelName | None = None
    effort: Effort | None = None


@operation(
    "PATCH",
    "/chats/{chat}/messages/{number}",
    "Edit a user's message: it and all messages after it are superseded",
    status=202,
)
async def edit_message(
    call: ApiCall, chat: Chat, number: MessageNumber, body: EditMessage
) -> Revision:
    return await chat.edit(
        number,
        await prompt_of(call, body.prompt),
        model=body.model,
        effort=body.effort,
        key=call.key,
    )
