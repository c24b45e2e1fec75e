"""The result of a chat's last turn."""

from __future__ import annotations

from msgspec import Struct

from holdfast.chat.snapshots import ChatResult, read_result
from holdfast.server.operation import Call, operation
from holdfast.server.request_types import Id
from holdfast.store.database import Tx


class Outcome(Struct, frozen=True):
    """The result of a chat, if it is idle."""

    result: ChatResult | None
    """None while the chat is not idle; its stream tells when to ask again."""


@operation("GET", "/chats/{chat}/result", "Read the result of a chat, once it is idle")
async def chat_result(call: Call, chat: Id) -> Outcome:
    """Read in one snapshot: how the turn ended, the text of the answer, and pending actions."""
    watch = call.server.host.feed.watch

    async def read(tx: Tx) -> ChatResult | None:
        return await read_result(tx, chat, watch)

    return Outcome(await call.server.db.read(read))
