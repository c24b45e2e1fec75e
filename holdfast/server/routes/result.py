"""The result of a chat's last turn."""

from __future__ import annotations

from msgspec import Struct

from holdfast.chat.snapshots import ChatResult, read_result
from holdfast.server.operation import ApiCall, operation
from holdfast.server.shared_request_types import Id
from holdfast.store.database import Tx


class CurrentResult(Struct, frozen=True):
    """The result of a chat, if it is idle."""

    result: ChatResult | None
    """Result of the last turn; None while the chat is not idle, which its stream reports."""


@operation("GET", "/chats/{chat}/result", "Read the result of a chat, once it is idle")
async def chat_result(call: ApiCall, chat: Id) -> CurrentResult:
    """Read in one snapshot: how the turn ended, the text of the answer, and pending actions."""
    limits = call.server.host.feed.stranded_limits

    async def read(tx: Tx) -> ChatResult | None:
        return await read_result(tx, chat, limits)

    return CurrentResult(await call.server.db.read(read))
