"""The queue of a chat: read, reorder, edit, remove and promote messages."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from holdfast.chat.errors import QueuedNotFound
from holdfast.chat.handle import Chat
from holdfast.chat.rows import Queued
from holdfast.chat.snapshots import Receipt
from holdfast.server.operation import ApiCall, operation
from holdfast.server.shared_request_types import Id, PromptBody, RequestStruct, prompt_of


class QueuedMessages(Struct, frozen=True):
    """The queue, in order of delivery."""

    queue: tuple[Queued, ...]


@operation("GET", "/chats/{chat}/queue", "Read the queue")
async def read_queue(call: ApiCall, chat: Chat) -> QueuedMessages:
    return QueuedMessages(await chat.queue.list())


class QueueOrder(RequestStruct, frozen=True):
    """A new order of the queue."""

    order: Annotated[tuple[Id, ...], Meta(max_length=100)]
    """Ids of all queued messages."""


@operation("PUT", "/chats/{chat}/queue", "Reorder the queue, within each kind")
async def order_queue(call: ApiCall, chat: Chat, body: QueueOrder) -> QueuedMessages:
    return QueuedMessages(await chat.queue.reorder(body.order, key=call.key))


@operation("GET", "/chats/{chat}/queue/{id}", "Read a queued message")
async def read_queued(call: ApiCall, chat: Chat, id: Id) -> Queued:
    for queued in await chat.queue.list():
        if queued.id == id:
            return queued
    raise QueuedNotFound(id)


class EditQueued(RequestStruct, frozen=True):
    """The new text of a queued message."""

    prompt: PromptBody
    deliver: Literal["steer", "queue"] | None = None
    """When to deliver it; None: unchanged."""


@operation("PATCH", "/chats/{chat}/queue/{id}", "Edit a queued message")
async def edit_queued(call: ApiCall, chat: Chat, id: Id, body: EditQueued) -> QueuedMessages:
    prompt = await prompt_of(call, body.prompt)
    return QueuedMessages(await chat.queue.edit(id, prompt, body.deliver, key=call.key))


@operation("DELETE", "/chats/{chat}/queue/{id}", "Remove a queued message before it is delivered")
async def remove_queued(call: ApiCall, chat: Chat, id: Id) -> Queued:
    return await chat.queue.remove(id, key=call.key)


@operation("POST", "/chats/{chat}/queue/{id}/promote", "Deliver a queued message now", status=202)
async def promote_queued(call: ApiCall, chat: Chat, id: Id) -> Receipt:
    return await chat.queue.promote(id, key=call.key)
