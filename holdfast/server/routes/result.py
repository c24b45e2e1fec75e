"""What a chat came to."""

from __future__ import annotations

from msgspec import Struct

from holdfast.chat.view import ChatResult, read_result
from holdfast.server.given import Id
from holdfast.server.operation import Call, operation
from holdfast.store.database import Tx


class Outcome(Struct, frozen=True):
    result: ChatResult | None
    """None while the chat does not rest: its stream says when it may."""


@operation("GET", "/chats/{chat}/result", "What the chat came to, once it rests")
async def chat_result(call: Call, chat: Id) -> Outcome:
    """All of one moment: how the turn ended, the text of the answer, and what is waited for."""
    watch = call.server.host.feed.watch

    async def read(tx: Tx) -> ChatResult | None:
        return await read_result(tx, chat, watch)

    return Outcome(await call.server.db.read(read))
