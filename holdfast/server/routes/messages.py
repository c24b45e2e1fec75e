"""The messages of a chat: read them, say something, say something else instead."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from holdfast.chat import queries
from holdfast.chat.locked import read_chat
from holdfast.chat.state import Deliver, Stored
from holdfast.chat.stream import SIZE
from holdfast.chat.view import Receipt, Revision
from holdfast.kernel.model import Effort
from holdfast.server.given import MOST_NUMBER, Given, Id, Limit, ModelName, Number, Said, prompt_of
from holdfast.server.operation import Call, operation
from holdfast.server.problem import BadRequest
from holdfast.store.database import Tx


class ListMessages(Given, frozen=True):
    before: Number | None = None
    """The newest in front of this number; without it and `after`, the newest of all."""
    after: Annotated[int, Meta(ge=0, le=MOST_NUMBER)] | None = None
    """The first behind this number."""
    limit: Limit = 100
    """At most: of large messages there are fewer on a page."""
    superseded: bool = False
    """With those that an edit took out: for the owner of the chat."""


class MessagePage(Struct, frozen=True):
    """Messages, in the order of the conversation."""

    messages: tuple[Stored, ...]
    next: int | None
    """What to give as `before`, or as `after`, for the next page; None when this is the last."""


@operation("GET", "/chats/{chat}/messages", "Read messages: the newest, or those after a number")
async def list_messages(call: Call, chat: Id, query: ListMessages) -> MessagePage:
    if query.before is not None and query.after is not None:
        raise BadRequest("give ?before or ?after, not both")

    async def read(tx: Tx) -> MessagePage:
        owner = (await read_chat(tx, chat)).owner
        page, more = await queries.read_page(
            tx,
            chat,
            query.limit,
            SIZE,
            before=query.before,
            after=query.after,
            superseded=query.superseded and owner == call.user,
        )
        last = 0 if query.after is None else -1
        return MessagePage(page, page[last].number if more else None)

    return await call.server.db.read(read)


class SendMessage(Given, frozen=True):
    prompt: Said
    deliver: Deliver = "queue"
    """While the chat is busy. `queue`: when the turn is over. `steer`: before its next step.
    `interrupt`: the turn is stopped for it."""
    model: ModelName | None = None
    """From this message on."""
    effort: Effort | None = None


@operation("POST", "/chats/{chat}/messages", "Say something", status=202)
async def send_message(call: Call, chat: Id, body: SendMessage) -> Receipt:
    held = await call.server.host.chat(chat)
    return await held.send(
        await prompt_of(call, body.prompt),
        body.deliver,
        model=body.model,
        effort=body.effort,
        key=call.key,
    )


class EditMessage(Given, frozen=True):
    prompt: Said
    model: ModelName | None = None
    effort: Effort | None = None


@operation(
    "PATCH",
    "/chats/{chat}/messages/{number}",
    "Say something else instead of a prompt: it and all behind it are superseded",
    status=202,
)
async def edit_message(call: Call, chat: Id, number: Number, body: EditMessage) -> Revision:
    held = await call.server.host.chat(chat)
    return await held.edit(
        number,
        await prompt_of(call, body.prompt),
        model=body.model,
        effort=body.effort,
        key=call.key,
    )
