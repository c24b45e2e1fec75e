"""The result of a chat's last turn."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from holdfast.chat.snapshots import ChatResult, read_result
from holdfast.kernel.output import json_value_in
from holdfast.server.operation import ApiCall, operation
from holdfast.server.shared_request_types import Id
from holdfast.store.database import Tx


class CurrentResult(Struct, frozen=True):
    """The result of a chat, if it is idle."""

    result: ChatResult | None
    """Result of the last turn; None while the chat is not idle, which its stream reports."""
    output: Any = None
    """The final answer as JSON: the value of the agent's output type, or text if it has none. None
    if the turn did not stop with an answer, or this server does not have the agent."""


@operation("GET", "/chats/{chat}/result", "Read the result of a chat, once it is idle")
async def chat_result(call: ApiCall, chat: Id) -> CurrentResult:
    """Read in one snapshot: how the turn ended, the answer as text and as a value, and pending
    actions."""
    limits = call.server.host.feed.stranded_limits

    async def read(tx: Tx) -> ChatResult | None:
        return await read_result(tx, chat, limits)

    result = await call.server.db.read(read)
    agents = call.server.host.agents
    if result is None or result.reason != "stop" or result.chat.agent not in agents:
        return CurrentResult(result)
    form = agents[result.chat.agent].form
    texts = result.pieces or (result.text,)
    output = result.text if form is None else json_value_in(form, texts)
    return CurrentResult(result, output)
