"""Answers that a client may well give, and that are hard to write down."""

from __future__ import annotations

import pytest

from holdfast.store.database import Database
from holdfast.testing import Clock, call
from tests.server.api import agent, serving_api
from tests.server.test_talking import begun, waiting
from tests.test_host import ask_user

pytestmark = pytest.mark.usefixtures("each_server")

JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize("key", [None, "k"])
@pytest.mark.parametrize(
    "result",
    [
        b"100000000000000000000000000",
        b'"\\ud800\\u0000"',
        b'{"\\ud800":1}',
        b"[" * 900 + b"]" * 900,
        b"null",
    ],
    ids=["huge", "surrogate", "surrogate name", "deep", "null"],
)
async def test_any_json_is_an_answer(
    db: Database, clock: Clock, result: bytes, key: str | None
) -> None:
    body = b'{"answer":{"type":"result","result":' + result + b"}}"
    script = [call("ask_user"), "thanks"]
    async with serving_api(db, [agent(script, clock, tools=[ask_user])], clock=clock) as api:
        id = await begun(api)
        (action,) = await waiting(api, id)
        path = f"/chats/{id}/actions/{action['call']['id']}"
        status, problem, _ = await api.ask("POST", path, body, headers=JSON, key=key)
        assert status == 202, problem
        await api.rest(id)
        assert (await api.get(f"/chats/{id}/messages")).status == 200
