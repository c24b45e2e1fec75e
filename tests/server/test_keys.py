"""A request that is named is carried out once: asked again it answers as the first time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from hashlib import sha256
from typing import Any, Final

import anyio
import pytest

from holdfast.chat.files import add_file
from holdfast.chat.rows import fence_of
from holdfast.chat.transitions import runner
from holdfast.server.identity.api_tokens import NewToken, issue
from holdfast.server.identity.auth_config import AuthConfig
from holdfast.server.identity.encrypted_secrets import encrypt, keyring, store_secret
from holdfast.server.identity.shares import NewShare, share
from holdfast.server.identity.users import create_user
from holdfast.server.operation import OPERATIONS
from holdfast.server.routes.health import document
from holdfast.store.database import Database, Tx
from holdfast.testing import Clock, call, fail
from tests.chat.chats import Chats, answer, asks, row_of_call
from tests.server.api import Answer, Api, agent, serving_api
from tests.server.test_talking import begun, waiting
from tests.test_host import ask_user

pytestmark = pytest.mark.usefixtures("each_server")

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


# --- every route that changes something ----------------------------------------------------------


async def _empty(chats: Chats, id: str) -> None:
    await chats.create(id, None, owner="ann")


async def _idle(chats: Chats, id: str) -> None:
    await chats.idle(id, owner="ann")


async def _failed(chats: Chats, id: str) -> None:
    await chats.error(id, owner="ann")


async def _limited(chats: Chats, id: str) -> None:
    await chats.limited(id, owner="ann")


async def _queued(chats: Chats, id: str) -> None:
    await chats.running(id, owner="ann", queue=["queue", "queue"])


async def _waits(chats: Chats, id: str) -> None:
    await chats.running(id, owner="ann")
    await chats.commit(id, answer("let me ask", asks("a"), asks("b")))
    row = await chats.row(id)
    calls = [row_of_call(row, each, "waiting", action="client") for each in "ab"]
    await chats.do(runner.require_action, fence_of(row), calls)


async def _nothing(chats: Chats, id: str) -> None:
    pass


Prepare = Callable[[Chats, str], Awaitable[None]]
KEYS: Final = keyring("A" * 43)
EXPORT: Final = object()
"""Stands for a file that can be imported."""
RESULT: Final = {"type": "result", "result": "yes"}
FORGOTTEN: Final = ("token", "link")
"""What is shown once, and no second time."""

TABLE: Final[Mapping[tuple[str, str], tuple[Prepare, Any, Any]]] = {
    ("POST", "/chats"): (_nothing, {"title": "a"}, {"title": "b"}),
    ("POST", "/chats/import"): (_nothing, EXPORT, b"x"),
    ("PATCH", "/chats/{chat}"): (_empty, {"title": "a"}, {"title": "b"}),
    ("DELETE", "/chats/{chat}"): (_empty, None, None),
    ("POST", "/chats/{chat}/messages"): (_empty, {"prompt": "a"}, {"prompt": "b"}),
    ("PATCH", "/chats/{chat}/messages/{number}"): (_idle, {"prompt": "a"}, {"prompt": "b"}),
    ("POST", "/chats/{chat}/fork"): (_idle, {"number": 1}, {"number": 2}),
    ("POST", "/chats/{chat}/interrupt"): (_queued, None, None),
    ("POST", "/chats/{chat}/retry"): (_failed, None, None),
    ("POST", "/chats/{chat}/resume"): (_limited, None, None),
    ("POST", "/chats/{chat}/compact"): (_idle, None, None),
    ("POST", "/chats/{chat}/title"): (_idle, None, None),
    ("PUT", "/chats/{chat}/read"): (_idle, {"number": 1}, {"number": 2}),
    ("PUT", "/chats/{chat}/queue"): (_queued, {"order": ["q2", "q1"]}, {"order": ["q1", "q2"]}),
    ("PATCH", "/chats/{chat}/queue/{id}"): (_queued, {"prompt": "a"}, {"prompt": "b"}),
    ("DELETE", "/chats/{chat}/queue/{id}"): (_queued, None, None),
    ("POST", "/chats/{chat}/queue/{id}/promote"): (_queued, None, None),
    ("POST", "/chats/{chat}/actions"): (
        _waits,
        {"answers": {"a": RESULT}},
        {"answers": {"b": RESULT}},
    ),
    ("POST", "/chats/{chat}/actions/{id}"): (
        _waits,
        {"answer": RESULT},
        {"answer": {**RESULT, "result": "no"}},
    ),
    ("POST", "/files"): (_nothing, b"a", b"b"),
    ("DELETE", "/files/{id}"): (_nothing, None, None),
    ("PUT", "/providers/{name}"): (_nothing, {"key": "sk-a"}, {"key": "sk-b"}),
    ("DELETE", "/providers/{name}"): (_nothing, None, None),
    ("PUT", "/budgets"): (_nothing, {"day": {"steps": 5}}, {"day": {"steps": 6}}),
    ("PUT", "/users/{user}/budgets"): (_nothing, {"day": {"steps": 5}}, {"day": {"steps": 6}}),
    ("PUT", "/chats/{chat}/budget"): (_empty, {"limits": {"steps": 5}}, {"limits": {"steps": 6}}),
    ("POST", "/users"): (_nothing, {"name": "new"}, {"name": "newer"}),
    ("PATCH", "/users/{user}"): (_nothing, {"role": "viewer"}, {"role": "admin"}),
    ("POST", "/tokens"): (_nothing, {"name": "a"}, {"name": "b"}),
    ("DELETE", "/tokens/{id}"): (_nothing, None, None),
    ("POST", "/chats/{chat}/shares"): (_empty, {"user": "bob"}, {}),
    ("DELETE", "/chats/{chat}/shares/{id}"): (_empty, None, None),
}
"""What is prepared, what is sent, and what another body would be; without one, the same is sent
about something else."""


async def _people(tx: Tx) -> None:
    """Everybody and everything that the table speaks of, twice."""
    for name in ("ann", "bob"):
        await create_user(tx, name, name, "admin" if name == "ann" else "member")
    for id in ("t1", "t2", "test"):  # the last is the one that is shown
        new = NewToken(
            id=id, user="ann", name=id, secret=f"hf_{id}", scopes=frozenset(), lifetime=None
        )
        await issue(tx, new)
    for n in "12":
        data = f"file {n}".encode()
        await add_file(tx, f"f{n}", "ann", sha256(data).hexdigest(), data, "text/plain", None)
    for name in ("openai", "groq"):
        await store_secret(tx, encrypt(KEYS, "provider", name, "sk-old"))


async def _share(new: NewShare, tx: Tx) -> None:
    await share(tx, new)


def _at(path: str, n: int) -> str:
    """A path with names that are there; `n`: of the first or of the second thing."""
    ids = {"queue": "q1", "actions": "a", "files": f"f{n}", "tokens": f"t{n}", "shares": f"s{n}"}
    kind = path.split("/{id}")[0].rpartition("/")[2]
    names = {"chat": f"c{n}", "number": "1", "id": ids.get(kind, ""), "user": "bob"}
    return path.format(**names, name="openai" if n == 1 else "groq")


async def _prepared(api: Api, clock: Clock, prepare: Prepare) -> bytes:
    """Also a file that can be imported."""
    chats = Chats(api.server.db, clock)
    await api.server.db.write(_people)
    for n in "12":
        await prepare(chats, f"c{n}")
        if prepare is _empty:
            new = NewShare(id=f"s{n}", chat=f"c{n}", by="ann", user="bob")
            await api.server.db.write(partial(_share, new))
    return (await (await api.host.create(None, owner="ann")).export()).encode()


@pytest.mark.parametrize("route", TABLE, ids=" ".join)
async def test_every_change_is_made_once_for_one_key(
    db: Database, clock: Clock, route: tuple[str, str]
) -> None:
    (method, path), (prepare, body, other) = route, TABLE[route]
    asked = [agent(["A title"], clock)]
    async with serving_api(db, asked, clock=clock, worker=None, titles=True) as api:
        api.server.access = AuthConfig(keyring=KEYS)
        exported = await _prepared(api, clock, prepare)
        api = api.of("ann:admin")
        sent = exported if body is EXPORT else body
        if path == "/chats/{chat}/shares":
            sent = {"expires_in": 100}
        first, again = [await api.ask(method, _at(path, 1), sent, key="k") for _ in range(2)]
        assert first.status < 300, first
        if isinstance(first.body, dict):
            for name in FORGOTTEN:
                if name in first.body:
                    assert (bool(first.body.pop(name)), again.body.pop(name)) == (True, None)
        assert again[:2] == first[:2]
        if other is None:
            status, problem, _ = await api.ask(method, _at(path, 2), sent, key="k")
        else:
            given = exported + b"\n" if body is EXPORT else other
            status, problem, _ = await api.ask(method, _at(path, 1), given, key="k")
        assert (status, problem["kind"]) == (409, "key_reused")


def test_every_route_that_takes_a_key_is_in_the_table_and_no_other_offers_one() -> None:
    changing = {route for route in OPERATIONS if route[0] != "GET"}
    assert changing - {("POST", "/session"), ("DELETE", "/session")} == set(TABLE)
    offered = {
        (method.upper(), path.removeprefix("/api/v1"))
        for path, methods in document()["paths"].items()
        for method, one in methods.items()
        if any(given["name"] == "Idempotency-Key" for given in one["parameters"])
    }
    assert offered == set(TABLE)


async def test_a_chat_is_deleted_once_by_many_who_ask_at_the_same_time(
    db: Database, clock: Clock
) -> None:
    async with serving_api(db, [agent((), clock)], clock=clock, worker=None) as api:
        chat = (await api.post("/chats")).body["id"]
        answers: list[Answer] = []

        async def delete() -> None:
            answers.append(await api.delete(f"/chats/{chat}", key="k"))

        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(delete)
        assert [one.status for one in answers] == [204] * 5
        assert (await api.delete(f"/chats/{chat}", key="other")).body["kind"] == "chat_not_found"
        assert (await api.delete(f"/chats/{chat}")).status == 404
        assert (await api.of("bob").delete(f"/chats/{chat}", key="k")).status == 404
