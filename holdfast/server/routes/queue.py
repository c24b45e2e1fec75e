"""The messages of a chat that wait."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from holdfast.chat.errors import QueuedNotFound
from holdfast.chat.state import Queued
from holdfast.chat.view import Receipt
from holdfast.server.given import Given, Id, Said, prompt_of
from holdfast.server.operation import Call, operation


class Waiting(Struct, frozen=True):
    """The queue, in the order in which it will be delivered."""

    queue: tuple[Queued, ...]


@operation("GET", "/chats/{chat}/queue", "Read the queue")
async def read_queue(call: Call, chat: Id) -> Waiting:
    return Waiting(await (await call.server.host.chat(chat)).queue.list())


class Order(Given, frozen=True):
    order: Annotated[tuple[Id, ...], Meta(max_length=100)]
    """The ids of all messages that wait."""


@operation("PUT", "/chats/{chat}/queue", "Put the queue into another order, within each kind")
async def order_queue(call: Call, chat: Id, body: Order) -> Waiting:
    held = await call.server.host.chat(chat)
    return Waiting(await held.queue.reorder(body.order, key=call.key))


@operation("GET", "/chats/{chat}/queue/{id}", "Read a message that waits")
async def read_queued(call: Call, chat: Id, id: Id) -> Queued:
    held = await call.server.host.chat(chat)
    for queued in await held.queue.list():
        if queued.id == id:
            return queued
    raise QueuedNotFound(id)


class EditQueued(Given, frozen=True):
    prompt: Said
    deliver: Literal["steer", "queue"] | None = None
    """None: as it is."""


@operation("PATCH", "/chats/{chat}/queue/{id}", "Change a message that waits")
async def edit_queued(call: Call, chat: Id, id: Id, body: EditQueued) -> Waiting:
    held = await call.server.host.chat(chat)
    prompt = await prompt_of(call, body.prompt)
    return Waiting(await held.queue.edit(id, prompt, body.deliver, key=call.key))


@operation("DELETE", "/chats/{chat}/queue/{id}", "Take a message back before it is delivered")
async def remove_queued(call: Call, chat: Id, id: Id) -> Queued:
    return await (await call.server.host.chat(chat)).queue.remove(id, key=call.key)


@operation(
    "POST", "/chats/{chat}/queue/{id}/promote", "Deliver a message that waits now", status=202
)
async def promote_queued(call: Call, chat: Id, id: Id) -> Receipt:
    return await (await call.server.host.chat(chat)).queue.promote(id, key=call.key)
