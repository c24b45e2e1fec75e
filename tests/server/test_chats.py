"""Chats over HTTP: begin, list, read, change, delete, and what a reader has seen of them."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.store.database import Database
from holdfast.testing import Clock, call
from tests.server.api import Api, agent, serving_api
from tests.test_host import ask_user

pytestmark = pytest.mark.usefixtures("each_server")


async def pages(api: Api, **query: Any) -> list[Any]:
    """All chats, page by page."""
    found, cursor = [], None
    while True:
        status, page, _ = await api.get("/chats", cursor=cursor, **query)
        assert status == 200, page
        found += page["chats"]
        cursor = page["next"]
        if cursor is None:
            return found


async def ids(api: Api, **query: Any) -> list[str]:
    return [chat["id"] for chat in await pages(api, **query)]


async def test_a_chat_is_begun_answers_and_can_be_read(db: Database, clock: Clock) -> None:
    async with serving_api(db, [agent(["Hello"], clock)], clock=clock) as api:
        body = {"prompt": "hi", "title": " My  chat ", "labels": {"team": "blue"}}
        status, made, headers = await api.post("/chats", body)
        assert (status, headers["Content-Type"]) == (201, "application/json")
        assert (made["title"], made["labels"], made["owner"]) == (
            "My chat",
            {"team": "blue"},
            "ann",
        )
        assert (made["status"], made["unread"], made["pinned"]) == ("running", False, False)
        now = await api.rest(made["id"])
        assert (now["status"], now["messages"], now["unread"]) == ("idle", 2, True)
        assert (await api.of("bob").get(f"/chats/{made['id']}")).status == 404


async def test_a_chat_without_a_title_is_known_by_its_first_words(
    db: Database, clock: Clock
) -> None:
    async with serving_api(db, [agent(["one", "two"], clock)], clock=clock) as api:
        long = "Fix  the\nlamp in the hall, " + "and another one, " * 20
        made = (await api.post("/chats", {"prompt": long})).body["id"]
        await api.post("/chats", {"title": "Named"})
        await api.post("/chats")
        opening = "Fix the lamp in the hall, and another one, and another one, and another one, an…"
        assert [chat.get("opening") for chat in await pages(api)] == [None, None, opening]
        await api.rest(made)
        await api.patch(f"/chats/{made}/messages/1", {"prompt": "Paint it"})
        assert (await api.get(f"/chats/{made}")).body["opening"] == "Paint it"
        await api.patch(f"/chats/{made}", {"title": "Lamp"})
        assert (await api.get(f"/chats/{made}")).body.get("opening") is None


async def test_a_chat_without_a_prompt_waits_for_its_first_message(
    db: Database, clock: Clock
) -> None:
    async with serving_api(db, [agent((), clock)], clock=clock) as api:
        status, made, _ = await api.post("/chats")
        assert (status, made["status"], made["messages"]) == (201, "idle", 0)


async def test_lists_hold_what_the_filters_ask_for(db: Database, clock: Clock) -> None:
    agents = [agent(["one"], clock), agent(["two"], clock, name="other")]
    async with serving_api(db, agents, clock=clock) as api:
        made = [
            (await api.post("/chats", body)).body["id"]
            for body in (
                {"labels": {"team": "blue"}},
                {"labels": {"team": "red", 'odd "name"': "x"}, "agent": "other"},
                {"title": "third"},
            )
        ]
        one, two, three = made
        assert await ids(api) == [three, two, one]
        assert await ids(api, label="team:blue") == [one]
        assert await ids(api, label="team") == [two, one]
        assert await ids(api, label='odd "name":x') == [two]
        assert await ids(api, agent="other") == [two]
        assert await ids(api, status="running") == []
        await api.patch(f"/chats/{two}", {"archived": True})
        assert await ids(api, status="idle") == [three, one]
        assert await ids(api, archived=True) == [two]
        await api.patch(f"/chats/{one}", {"pinned": True})
        assert await ids(api, pinned=True) == [one]
        assert await ids(api, pinned=False) == [three]
        assert await ids(api, parent=one) == []
        assert await ids(api.of("bob")) == []


async def test_pages_reach_the_end_without_gap_or_repeat_while_chats_are_begun(
    db: Database, clock: Clock
) -> None:
    async with serving_api(db, [agent((), clock)], clock=clock) as api:
        before = [(await api.post("/chats")).body["id"] for _ in range(7)]
        seen, cursor = [], None
        while True:
            page = (await api.get("/chats", limit=2, cursor=cursor)).body
            seen += [chat["id"] for chat in page["chats"]]
            await api.post("/chats")
            cursor = page["next"]
            if cursor is None:
                break
        assert seen == before[::-1]


async def test_a_page_that_is_exactly_full_is_the_last(db: Database, clock: Clock) -> None:
    async with serving_api(db, [agent((), clock)], clock=clock) as api:
        for _ in range(2):
            await api.post("/chats")
        assert (await api.get("/chats", limit=2)).body["next"] is None


async def test_a_change_is_carried_out_as_a_whole(db: Database, clock: Clock) -> None:
    async with serving_api(db, [agent((), clock)], clock=clock) as api:
        id = (await api.post("/chats", {"title": "old"})).body["id"]
        everything = {
            "title": "new",
            "labels": {"a": "b"},
            "archived": True,
            "pinned": True,
            "model": "demo",
            "effort": "low",
        }
        status, now, _ = await api.patch(f"/chats/{id}", everything)
        assert status == 200
        assert {name: now[name] for name in everything} == everything
        back = {"archived": False, "title": None, "model": None, "effort": None, "pinned": False}
        now = (await api.patch(f"/chats/{id}", back)).body
        assert {name: now[name] for name in back} == back
        assert (now["titled_by"], now["labels"]) == (None, {"a": "b"})


@pytest.mark.parametrize(
    "wrong", [{"model": "nobody:knows"}, {"title": "\x00"}, {"title": "  "}, {"archived": True}]
)
async def test_a_change_that_is_refused_in_part_changes_nothing(
    db: Database, clock: Clock, wrong: dict[str, Any]
) -> None:
    async with serving_api(db, [agent((), clock)], clock=clock, worker=None) as api:
        id = (await api.post("/chats", {"prompt": "hi"})).body["id"]
        before = (await api.get(f"/chats/{id}")).body
        status, problem, _ = await api.patch(
            f"/chats/{id}", {"labels": {"x": "y"}, "pinned": True, "title": "new"} | wrong
        )
        if wrong == {"model": "nobody:knows"}:
            # A server without a worker cannot know what its workers have.
            assert status == 200
            return
        assert status in (409, 422), problem
        assert (await api.get(f"/chats/{id}")).body == before


async def test_an_archived_chat_takes_pins_and_nothing_else(db: Database, clock: Clock) -> None:
    async with serving_api(db, [agent((), clock)], clock=clock) as api:
        id = (await api.post("/chats")).body["id"]
        for _ in range(2):  # the second time there is nothing to do
            assert (await api.patch(f"/chats/{id}", {"archived": True})).status == 200
        assert (await api.patch(f"/chats/{id}", {"pinned": True})).body["pinned"] is True
        status, problem, _ = await api.patch(f"/chats/{id}", {"title": "x", "pinned": False})
        assert (status, problem["kind"]) == (409, "chat_archived")
        assert (await api.get(f"/chats/{id}")).body["pinned"] is True


async def test_an_unknown_model_is_refused_where_the_worker_is(db: Database, clock: Clock) -> None:
    async with serving_api(db, [agent((), clock)], clock=clock) as api:
        id = (await api.post("/chats")).body["id"]
        status, problem, _ = await api.patch(f"/chats/{id}", {"model": "nobody:knows"})
        assert (status, problem["kind"]) == (422, "invalid_input")
        assert "no provider 'nobody'" in problem["detail"]


async def test_a_deleted_chat_is_gone(db: Database, clock: Clock) -> None:
    async with serving_api(db, [agent(["Hello"], clock)], clock=clock) as api:
        id = (await api.post("/chats", {"prompt": "hi"})).body["id"]
        await api.rest(id)
        await api.put(f"/chats/{id}/read", {"number": 1})
        assert (await api.get("/chats", q="hello")).body["chats"][0]["id"] == id
        assert (await api.delete(f"/chats/{id}"))[:2] == (204, None)
        status, problem, _ = await api.get(f"/chats/{id}")
        assert (status, problem["kind"]) == (404, "chat_not_found")
        assert await ids(api, q="hello") == []


# --- marks ---


async def test_what_is_read_and_pinned_is_each_readers_own(db: Database, clock: Clock) -> None:
    async with serving_api(db, [agent(["Hello"], clock)], clock=clock) as api:
        body = {"prompt": "hi", "labels": {"shared": "bob"}}
        id = (await api.post("/chats", body)).body["id"]
        await api.rest(id)
        status, marks, _ = await api.of("bob").put(f"/chats/{id}/read", {"number": 2})
        assert (status, marks) == (
            200,
            {
                "read": 2,
                "unread": False,
                "pinned": False,
                "needs_me": False,
                "mine": False,
                "owner_name": None,
            },
        )
        assert (await api.get(f"/chats/{id}")).body["unread"] is True
        assert (await api.of("bob").get(f"/chats/{id}")).body["unread"] is False
        assert (await api.of("eve").put(f"/chats/{id}/read", {"number": 2})).status == 404


async def test_nobody_has_read_further_than_the_chat_goes(db: Database, clock: Clock) -> None:
    async with serving_api(db, [agent(["Hello", "Again"], clock)], clock=clock) as api:
        id = (await api.post("/chats", {"prompt": "hi"})).body["id"]
        await api.rest(id)
        assert (await api.put(f"/chats/{id}/read", {"number": 99})).body["read"] == 2
        await api.post(f"/chats/{id}/messages", {"prompt": "more"})
        assert (await api.rest(id))["unread"] is True
        assert (await api.put(f"/chats/{id}/read", {"number": 0})).body["unread"] is True


async def test_a_chat_that_waits_for_a_person_says_so_in_the_list(
    db: Database, clock: Clock
) -> None:
    script = [call("ask_user"), "Thanks"]
    async with serving_api(db, [agent(script, clock, tools=[ask_user])], clock=clock) as api:
        id = (await api.post("/chats", {"prompt": "hi"})).body["id"]
        assert (await api.rest(id))["needs_me"] is True
        (action,) = (await api.get(f"/chats/{id}/actions")).body["actions"]
        answer = {"answer": {"type": "result", "result": "blue"}}
        await api.post(f"/chats/{id}/actions/{action['call']['id']}", answer)
        assert (await api.rest(id))["needs_me"] is False
        (listed,) = await pages(api)
        assert (listed["needs_me"], listed["unread"]) == (False, True)
