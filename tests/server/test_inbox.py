"""What waits for somebody, in all of their chats."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.store.database import Database
from holdfast.testing import Clock, call
from tests.server.api import Api, agent, serving_api
from tests.server.test_talking import begun, client_tool, waiting
from tests.test_host import ask_user, pay

pytestmark = pytest.mark.usefixtures("each_server")


async def asked(api: Api, **query: Any) -> list[Any]:
    status, page, _ = await api.get("/actions", **query)
    assert status == 200, page
    return list(page["actions"])


async def test_an_inbox_has_what_waits_in_every_chat_of_the_caller(
    db: Database, clock: Clock
) -> None:
    script = [call("ask_user"), call("pay", amount=5), "done"]
    async with serving_api(db, [agent(script, clock, tools=[ask_user, pay])], clock=clock) as api:
        first = await begun(api, title="First")
        await waiting(api, first)
        clock.advance(1)
        second = await begun(api)
        await waiting(api, second)
        newest, oldest = await asked(api)
        assert (newest["chat_id"], newest["root_id"], newest["title"]) == (second, second, None)
        assert (oldest["chat_id"], oldest["title"], oldest["agent"]) == (first, "First", "agent")
        assert newest["asked_at"] > oldest["asked_at"]
        (shown,) = (await api.get(f"/chats/{second}/actions")).body["actions"]
        assert newest["action"] == shown
        assert shown["kind"] == "approval"
        assert await asked(api.of("bob")) == []
        answer = {"answer": {"type": "deny"}}
        await api.post(f"/chats/{second}/actions/{shown['call']['id']}", answer)
        assert [one["chat_id"] for one in await asked(api)] == [first]


async def test_an_inbox_comes_in_pages_that_leave_nothing_out(db: Database, clock: Clock) -> None:
    tools = [ask_user, client_tool]
    script = [[call("ask_user"), call("open_page")]] * 3
    async with serving_api(db, [agent(script, clock, tools=tools)], clock=clock) as api:
        for _ in range(3):
            await waiting(api, await begun(api))
        found: list[Any] = []
        cursor = None
        while True:
            page = (await api.get("/actions", limit=1, cursor=cursor)).body
            found += page["actions"]
            cursor = page["next"]
            if cursor is None:
                break
        assert len(found) == 6
        assert found == await asked(api)


@pytest.mark.parametrize("cursor", ["nonsense", "Y2hhdHMgeA", "YWN0aW9ucyB4", "YWN0aW9ucyBbMV0"])
async def test_an_inbox_refuses_a_cursor_that_is_none_of_it(
    db: Database, clock: Clock, cursor: str
) -> None:
    async with serving_api(db, [agent((), clock)], clock=clock, worker=None) as api:
        status, problem, _ = await api.get("/actions", cursor=cursor)
        assert (status, problem["kind"]) == (400, "bad_cursor")
