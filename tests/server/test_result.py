"""What a chat came to, and what the client library asks for besides."""

from __future__ import annotations

import pytest

from holdfast.store.database import Database
from holdfast.testing import Clock, call, pause
from tests.server.api import agent, serving_api
from tests.test_host import pay

pytestmark = pytest.mark.usefixtures("each_server")


async def test_a_result_is_there_once_the_chat_rests(db: Database, clock: Clock) -> None:
    async with serving_api(db, [agent([[pause(5), "hello"]], clock)], clock=clock) as api:
        chat = await api.host.create("go", owner="ann")
        path = f"/chats/{chat.id}/result"
        assert (await api.get(path))[:2] == (200, {"result": None})
        await chat.rest()
        found = (await api.get(path)).body["result"]
        assert (found["reason"], found["text"], found["actions"]) == ("stop", "hello", [])
        assert found["chat"]["id"] == chat.id
        assert (await api.of("bob").get(path)).status == 404


async def test_chats_are_listed_from_an_id_on(db: Database, clock: Clock) -> None:
    async with serving_api(db, [agent((), clock)], clock=clock) as api:
        ids = [(await api.host.create(None, owner="ann")).id for _ in range(3)]
        page = (await api.get("/chats", before=ids[2], limit=1)).body
        assert [chat["id"] for chat in page["chats"]] == [ids[1]]
        rest = (await api.get("/chats", cursor=page["next"])).body
        assert [chat["id"] for chat in rest["chats"]] == [ids[0]]
        status, problem, _ = await api.get("/chats", before=ids[0], cursor=page["next"])
        assert (status, problem["detail"]) == (
            400,
            "?before and ?cursor exclude each other: send one of them",
        )


async def test_calls_are_allowed_with_the_answers(db: Database, clock: Clock) -> None:
    script = [call("pay", amount=3), call("pay", amount=4), "done"]
    async with serving_api(db, [agent(script, clock, tools=[pay])], clock=clock) as api:
        chat = await api.host.create("go", owner="ann")
        (action,) = (await chat.rest()).actions
        answers = {action.call.id: {"type": "allow", "digest": action.digest}}
        path = f"/chats/{chat.id}/actions"
        unknown = {"answers": answers, "allow_for_chat": {"tool": "steal"}}
        assert (await api.post(path, unknown)).status == 422
        body = {"answers": answers, "allow_for_chat": {"tool": "pay"}}
        first = await api.post(path, body, key="k")
        assert first.status == 202
        assert (await chat.rest()).text == "done"
        assert (await api.post(path, body, key="k"))[:2] == first[:2]
        status, problem, _ = await api.post(path, {"answers": answers}, key="k")
        assert (status, problem["kind"]) == (409, "key_reused")
