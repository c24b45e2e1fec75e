"""A reader between a crash and the next attempt, over both kinds of stream."""

from __future__ import annotations

import pytest

from holdfast.chat.rows import fence_of
from holdfast.chat.stream import ChatChanged
from holdfast.chat.transitions import runner
from holdfast.kernel.messages import Message, Text
from holdfast.server.event_codec import event_of
from holdfast.store.database import Database
from holdfast.testing import Clock
from tests.chat.chats import Chats
from tests.server.api import agent, serving_api
from tests.server.streams.client import connected, frames, socket

pytestmark = pytest.mark.usefixtures("each_server")

SO_FAR = Message("assistant", (Text("so far"),), "answer", finish="interrupted")


@pytest.mark.parametrize("over", ["sse", "websocket"])
async def test_a_stream_has_what_a_restart_interrupted(
    db: Database, clock: Clock, over: str
) -> None:
    async with serving_api(db, [agent([], clock)], clock=clock, worker=None) as api:
        status, made, _ = await api.post("/chats", {"prompt": "go"})
        assert status == 201
        id = made["id"]
        chats = Chats(db, clock)
        assert id in await chats.claim("root", agents=[made["agent"]])
        fence = fence_of(await chats.row(id))
        await chats.do(runner.write_partial, fence, 1, SO_FAR)
        await chats.do(runner.release, fence)
        assert (await api.get(f"/chats/{id}")).body["partial"]["parts"][0]["text"] == "so far"
        if over == "sse":
            async with connected(api, id) as connection:
                (wire,) = await connection.take(1)
        else:
            async with socket(api, id) as opened:
                wire = await anext(frames(opened))
        event = event_of(wire)
        assert isinstance(event, ChatChanged)
        assert event.chat.partial == SO_FAR
