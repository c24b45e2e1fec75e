"""A request that is named is carried out once: asked again it answers as the first time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import anyio
import pytest

from holdfast.store.database import Database
from holdfast.testing import Clock, call, fail
from tests.server.kit import Answer, Api, agent, serving_api
from tests.server.test_talking import begun, waiting
from tests.test_host import ask_user

Ask = Callable[[Api, str, str, str], Awaitable[Answer]]
"""With the API, the id of a chat, the id of something in it, and a piece of the body."""


def post(path: str, body: Any) -> Ask:
    async def ask(api: Api, chat: str, id: str, what: str) -> Answer:
        place = path.format(chat=chat, id=id)
        return await api.post(place, body(id, what) if body else None, key="k")

    return ask


def other(method: str, path: str, body: Any) -> Ask:
    async def ask(api: Api, chat: str, id: str, what: str) -> Answer:
        given = body(id, what) if body else None
        return await api.ask(method, path.format(chat=chat, id=id), given, key="k")

    return ask


PROMPT: Final = lambda id, what: {"prompt": what}  # noqa: E731
ANSWER: Final = lambda id, what: {"answer": {"type": "result", "result": what}}  # noqa: E731

IDLE: Final[Mapping[str, Ask]] = {
    "create": post("/chats", PROMPT),
    "send": post("/chats/{chat}/messages", PROMPT),
    "edit": other("PATCH", "/chats/{chat}/messages/1", PROMPT),
    "fork": post("/chats/{chat}/fork", lambda id, what: {"number": 1, "title": what}),
    "change": other("PATCH", "/chats/{chat}", lambda id, what: {"title": what, "archived": True}),
    "read": other("PUT", "/chats/{chat}/read", lambda id, what: {"number": len(what)}),
    "upload": other("POST", "/files", lambda id, what: what.encode()),
}


async def check(api: Api, ask: Ask, chat: str, id: str = "") -> None:
    first = await ask(api, chat, id, "one")
    assert first.status < 300, first
    if chat:
        await api.rest(chat)
    again = await ask(api, chat, id, "one")
    assert again[:2] == first[:2]
    status, problem, _ = await ask(api, chat, id, "other")
    assert (status, problem["kind"]) == (409, "key_reused")


@pytest.mark.parametrize("what", IDLE)
async def test_the_same_request_is_answered_again_and_another_is_refused(
    db: Database, clock: Clock, what: str
) -> None:
    script = ["answer"] * 3
    async with serving_api(db, [agent(script, clock)], clock=clock) as api:
        chat = await begun(api)
        await api.rest(chat)
        await check(api, IDLE[what], chat)


async def test_a_turn_is_stopped_tried_again_and_summarized_once(
    db: Database, clock: Clock
) -> None:
    never = anyio.Event()
    script = [never, fail(status=401), "two", "Goal: x"]
    async with serving_api(db, [agent(script, clock)], clock=clock) as api:
        chat = await begun(api)
        for path, then in (("interrupt", "more"), ("retry", None), ("compact", None)):
            answers = []
            for _ in range(2):
                answers.append(await api.post(f"/chats/{chat}/{path}", key=path))
                await api.rest(chat)
            assert answers[0].status == 202
            assert answers[0][:2] == answers[1][:2], path
            if then is not None:
                await api.post(f"/chats/{chat}/messages", {"prompt": then})
                await api.rest(chat)
        status, problem, _ = await api.post(f"/chats/{chat}/retry", key="compact")
        assert (status, problem["kind"]) == (409, "key_reused")


async def test_an_action_is_answered_once(db: Database, clock: Clock) -> None:
    script = [call("ask_user"), "thanks"]
    async with serving_api(db, [agent(script, clock, tools=[ask_user])], clock=clock) as api:
        chat = await begun(api)
        (action,) = await waiting(api, chat)
        await check(api, post("/chats/{chat}/actions/{id}", ANSWER), chat, action["call"]["id"])


async def test_the_queue_is_changed_once(db: Database, clock: Clock) -> None:
    async with serving_api(db, [agent((), clock)], clock=clock, worker=None) as api:
        chat = await begun(api)
        sent = [(await api.post(f"/chats/{chat}/messages", {"prompt": n})).body for n in "ab"]
        a, b = (one["queued"] for one in sent)
        base = f"/chats/{chat}/queue"
        asked = (
            ("PUT", base, {"order": [b, a]}),
            ("PATCH", f"{base}/{a}", {"prompt": "x"}),
            ("DELETE", f"{base}/{a}", None),
            ("POST", f"{base}/{b}/promote", None),
        )
        for n, (method, path, body) in enumerate(asked):
            first, again = [await api.ask(method, path, body, key=f"k{n}") for _ in range(2)]
            assert first.status < 300, first
            assert first[:2] == again[:2]


async def test_a_key_belongs_to_whoever_uses_it(db: Database, clock: Clock) -> None:
    async with serving_api(db, [agent(["a", "b"], clock)], clock=clock) as api:
        mine = (await api.post("/chats", {"prompt": "one"}, key="k")).body
        theirs = (await api.of("bob").post("/chats", {"prompt": "other"}, key="k")).body
        assert mine["id"] != theirs["id"]


async def test_a_refused_request_may_use_its_key_again(db: Database, clock: Clock) -> None:
    async with serving_api(db, [agent(["a"], clock)], clock=clock) as api:
        assert (await api.post("/chats", {"agent": "nobody"}, key="k")).status == 422
        assert (await api.post("/chats", {"prompt": "hi"}, key="k")).status == 201
