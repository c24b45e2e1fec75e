"""The queue of a chat on a remote server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from holdfast.chat.interface import ChatQueue
from holdfast.chat.rows import Queued
from holdfast.chat.snapshots import Receipt
from holdfast.client.request_bodies import parts_of, without_none
from holdfast.client.transport import Transport, at
from holdfast.kernel.messages import Prompt, prepare_to_decode


class _QueuedMessages(Struct, frozen=True):
    """The queue, in order of delivery."""

    queue: tuple[Queued, ...]


class RemoteQueue(ChatQueue):
    """The queued messages of a chat, in order of delivery."""

    def __init__(self, transport: Transport, chat_id: str) -> None:
        self._transport = transport
        self._path = at("chats", chat_id, "queue")

    async def list(self) -> tuple[Queued, ...]:
        return (await self._transport.get(self._path, _QueuedMessages)).queue

    async def edit(
        self,
        id: str,
        prompt: Prompt,
        deliver: Literal["steer", "queue"] | None = None,
        *,
        key: str | None = None,
    ) -> tuple[Queued, ...]:
        body = without_none(prompt=parts_of(prompt), deliver=deliver)
        changed = await self._transport.change(
            "PATCH", self._path + at(id), _QueuedMessages, body, key=key
        )
        return changed.queue

    async def reorder(self, ids: Sequence[str], *, key: str | None = None) -> tuple[Queued, ...]:
        changed = await self._transport.change(
            "PUT", self._path, _QueuedMessages, {"order": list(ids)}, key=key
        )
        return changed.queue

    async def remove(self, id: str, *, key: str | None = None) -> Queued:
        return await self._transport.change("DELETE", self._path + at(id), Queued, key=key)

    async def promote(self, id: str, *, key: str | None = None) -> Receipt:
        return await self._transport.change(
            "POST", self._path + at(id, "promote"), Receipt, key=key
        )


prepare_to_decode(_QueuedMessages, Queued, Receipt)
