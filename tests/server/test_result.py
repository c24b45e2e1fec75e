"""What a chat came to, and what the client library asks for besides."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Any

import pytest

from holdfast.store.database import Database
from holdfast.testing import Clock, call, fail, pause
from tests.server.api import agent, serving_api
from tests.test_host import pay

OSLO = {"name": "Oslo", "founded": "1048-01-01"}
pytestmark = pytest.mark.usefixtures("each_server")


async def test_a_result_is_there_once_the_chat_rests(db: Database, clock: Clock) -> None:
    async with serving_api(db, [agent([[pause(5), "hello"]], clock)], clock=clock) as api:
        chat = await api.host.create("go", owner="ann")
        path = f"/chats/{chat.id}/result"
        assert (await api.get(path))[:2] == (200, {"result": None, "output": None})
        await chat.rest()
        body = (await api.get(path)).body
        found = body["result"]
        assert body["output"] == "hello"
        assert (found["reason"], found["text"], found["actions"]) == ("stop", "hello", [])
        assert found["chat"]["id"] == chat.id
        assert (await api.of("bob").get(path)).status == 404


@dataclass
class City:
    name: str
    founded: date


@pytest.mark.parametrize(
    ("wanted", "answer", "value"),
    [
        (City, '```json\n{"name": "Oslo", "founded": "1048-01-01"}\n```', OSLO),
        (list[int], '{"value": [1, 2]}', [1, 2]),
        (int, "5", 5),
        (str, "Oslo", "Oslo"),
    ],
    ids=["object", "list", "number", "text"],
)
async def test_a_result_has_the_value_of_the_output_type(
    db: Database, clock: Clock, wanted: Any, answer: str, value: object
) -> None:
    agents = [agent([answer], clock, output=wanted)]
    async with serving_api(db, agents, clock=clock) as api:
        chat = await api.host.create("go", owner="ann")
        await chat.rest()
        assert (await api.get(f"/chats/{chat.id}/result")).body["output"] == value


async def test_a_result_without_an_answer_has_no_output(db: Database, clock: Clock) -> None:
    async with serving_api(db, [agent([fail(status=401)], clock)], clock=clock) as api:
        chat = await api.host.create("go", owner="ann")
        await chat.rest()
        body = (await api.get(f"/chats/{chat.id}/result")).body
        assert (body["result"]["reason"], body["output"]) == ("error", None)


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
