"""What the API refuses, and how it says so."""

from __future__ import annotations

from gzip import compress
from typing import Any

import pytest

from holdfast.server.api_state import ServerLimits
from holdfast.server.pagination import cursor_holding
from holdfast.store.database import Database
from holdfast.testing import Clock
from tests.server.api import agent, serving_api

pytestmark = pytest.mark.usefixtures("each_server")

JSON = {"Content-Type": "application/json"}
NUL = "\x00"


def actions_from(at: int, chat: str = "c") -> str:
    """A cursor of this list, as somebody might make one up."""
    return cursor_holding("actions", (at, chat, "call"))


def nested(deep: int) -> bytes:
    return b"[" * deep + b"]" * deep


def result(value: bytes) -> bytes:
    return b'{"answer":{"type":"result","result":' + value + b"}}"


def allow(value: bytes) -> bytes:
    return b'{"answer":{"type":"allow","digest":"d","arguments":{"a":' + value + b"}}}"


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "kind", "detail"),
    [
        ("POST", "/chats", {"promt": "x"}, 422, "invalid_body", "unknown field `promt`"),
        ("POST", "/chats", {"labels": {"a": 1}}, 422, "invalid_body", "$.labels[...]"),
        ("POST", "/chats", {"labels": {"": "x"}}, 422, "invalid_body", "length >= 1"),
        ("POST", "/chats", {"title": "x" * 201}, 422, "invalid_body", "$.title"),
        ("POST", "/chats", {"effort": "huge"}, 422, "invalid_body", "$.effort"),
        ("POST", "/chats", {"prompt": ""}, 422, "invalid_body", "$.prompt"),
        ("POST", "/chats", {"prompt": " "}, 422, "invalid_input", "prompt is empty"),
        ("POST", "/chats", {"prompt": []}, 422, "invalid_body", "$.prompt"),
        ("POST", "/chats", {"prompt": [{"type": "call"}]}, 422, "invalid_body", "$.prompt[0]"),
        ("POST", "/chats", {"prompt": [{"type": "file"}]}, 422, "invalid_body", "one of file"),
        (
            "POST",
            "/chats",
            {"prompt": [{"type": "file", "data": "eA=="}]},
            422,
            "invalid_body",
            "needs its media_type",
        ),
        ("POST", "/chats", {"agent": "nobody"}, 422, "invalid_input", "use one of agent"),
        ("POST", "/chats", {"agent": "Agnet"}, 422, "invalid_input", "did you mean agent?"),
        ("POST", "/chats", {"title": "a\x00b"}, 422, "invalid_input", "cannot be stored"),
        ("POST", "/chats", b"{", 400, "bad_request", "not valid JSON"),
        ("POST", "/chats", b"[]", 422, "invalid_body", "Expected `object`"),
        ("POST", "/chats", b"\xff", 400, "bad_request", "not valid JSON"),
        ("GET", "/chats?cursor=nonsense", None, 400, "bad_cursor", "`next` of the previous page"),
        ("GET", "/chats?cursor=Y2hhdHM", None, 400, "bad_cursor", "is not a cursor"),
        ("GET", "/files?cursor=Y2hhdHMgeA", None, 400, "bad_cursor", "is not a cursor"),
        (
            "GET",
            f"/actions?cursor={actions_from(2**63)}",
            None,
            400,
            "bad_cursor",
            "is not a cursor",
        ),
        ("GET", f"/actions?cursor={actions_from(-1)}", None, 400, "bad_cursor", "is not a cursor"),
        (
            "GET",
            f"/actions?cursor={actions_from(1, NUL)}",
            None,
            400,
            "bad_cursor",
            "is not a cursor",
        ),
        ("GET", "/chats?limit=0", None, 400, "bad_request", "$.limit"),
        ("GET", "/chats?limit=201", None, 400, "bad_request", "$.limit"),
        ("GET", "/chats?limit=x", None, 400, "bad_request", "$.limit"),
        ("GET", "/chats?limt=1", None, 400, "bad_request", "unknown field `limt`"),
        ("GET", "/chats?limit=1&limit=2", None, 400, "bad_request", "given twice"),
        ("GET", "/chats?status=lost", None, 400, "bad_request", "$.status"),
        ("GET", "/chats?q=!", None, 400, "bad_request", "no word"),
        ("GET", "/chats?label=%00", None, 400, "bad_request", "cannot be stored"),
        ("GET", "/agents?x=1", None, 400, "bad_request", "?x"),
        ("GET", "/stream?x=1", None, 400, "bad_request", "unknown field `x`"),
        ("GET", "/stream?cursor=1&cursor=2", None, 400, "bad_request", "given twice"),
        ("GET", "/chats/{id}/stream?follow=1", None, 400, "bad_request", "unknown field `follow`"),
        ("GET", "/stream?cursor=nonsense", None, 422, "invalid_input", "cursor"),
        ("POST", "/files?nam=x", None, 400, "bad_request", "unknown field `nam`"),
        ("POST", "/chats/import?x=1", None, 400, "bad_request", "unknown field `x`"),
        ("GET", "/chats/nothing", None, 404, "chat_not_found", "there is no chat"),
        ("GET", "/chats/%00", None, 404, "not_found", "there is no chat"),
        ("GET", "/files/nothing", None, 404, "file_not_found", "upload it first"),
        ("GET", "/nothing", None, 404, "no_such_path", "openapi.json"),
        ("DELETE", "/chats", None, 405, "method_not_allowed", "use GET"),
        ("PATCH", "/chats/{id}", {}, 422, "invalid_body", "nothing to change"),
        ("PATCH", "/chats/{id}/messages/0", {"prompt": "x"}, 400, "bad_request", ">= 1"),
        ("PATCH", "/chats/{id}/messages/x", {"prompt": "x"}, 400, "bad_request", "number"),
        ("PATCH", "/chats/{id}/messages/1", {}, 422, "invalid_body", "field `prompt`"),
        ("PUT", "/chats/{id}/read", {"number": -1}, 422, "invalid_body", "$.number"),
        ("PUT", "/chats/{id}/read", {"number": 10**30}, 422, "invalid_body", "$.number"),
        (
            "GET",
            "/chats/{id}/messages?before=1&after=1",
            None,
            400,
            "bad_request",
            "exclude each other",
        ),
        ("POST", "/chats/{id}/actions/x", {}, 422, "invalid_body", "field `answer`"),
        ("POST", "/chats/{id}/actions", {"answers": {}}, 422, "invalid_body", "$.answers"),
        (
            "POST",
            "/chats/{id}/messages",
            {"prompt": "x", "deliver": "never"},
            422,
            "invalid_body",
            "$.deliver",
        ),
    ],
    ids=lambda value: None if isinstance(value, int) else str(value)[:60],
)
async def test_bad_input_is_refused_with_its_place(
    db: Database,
    clock: Clock,
    method: str,
    path: str,
    body: Any,
    status: int,
    kind: str,
    detail: str,
) -> None:
    async with serving_api(db, [agent((), clock)], clock=clock) as api:
        id = (await api.post("/chats")).body["id"]
        answer = await api.ask(method, path.replace("{id}", id), body, headers=JSON)
        problem = answer.body
        assert (answer.status, problem["kind"]) == (status, kind), problem
        assert detail in problem["detail"]
        assert problem["status"] == status
        assert problem["title"]
        assert answer.headers["Content-Type"] == "application/problem+json"


async def test_nothing_is_too_deep_to_be_answered(db: Database, clock: Clock) -> None:
    async with serving_api(db, [agent((), clock)], clock=clock) as api:
        path = f"/chats/{(await api.post('/chats')).body['id']}/actions/x"
        statuses = set()
        for deep in (*range(400, 1000, 9), 100_000):
            for body in (
                result(nested(deep)),
                result(b'["\\ud800",' + nested(deep) + b"]"),
                allow(nested(deep)),
            ):
                answer = await api.ask("POST", path, body, headers=JSON, key="k")
                statuses.add(answer.status)
                if answer.status == 400:
                    assert "nested too deeply" in answer.body["detail"]
        assert statuses == {400, 409}


@pytest.mark.parametrize(
    ("method", "path", "body", "choices"),
    [
        ("POST", "/chats", {"effort": "huge"}, "high, low, max, medium, minimal, none, xhigh"),
        ("POST", "/chats", {"prompt": [{"type": "call"}]}, "text, file, source"),
        (
            "GET",
            "/chats?status=lost",
            None,
            "idle, running, interrupting, requires_action, error",
        ),
        ("POST", "/chats/x/messages", {"prompt": "x", "deliver": "now"}, "interrupt, queue, steer"),
        ("POST", "/tokens", {"name": "x", "scopes": ["read", "all"]}, "admin, read, write"),
        (
            "POST",
            "/chats/x/actions",
            {"answers": {"a": {"type": "yes"}}},
            "allow, deny, result",
        ),
    ],
)
async def test_what_is_none_of_a_few_values_is_told_all_of_them(
    db: Database, clock: Clock, method: str, path: str, body: Any, choices: str
) -> None:
    async with serving_api(db, [agent((), clock)], clock=clock) as api:
        id = (await api.post("/chats")).body["id"]
        answer = await api.ask(method, path.replace("/x/", f"/{id}/"), body, headers=JSON)
        said = answer.body["detail"].partition(": use one of ")[2]
        assert said == choices, answer.body


async def test_a_body_that_is_too_large_is_refused(db: Database, clock: Clock) -> None:
    limits = ServerLimits(body=1000)
    async with serving_api(db, [agent((), clock)], clock=clock, limits=limits) as api:
        status, problem, _ = await api.post("/chats", {"prompt": "x" * 1000})
        assert (status, problem["kind"], problem["facts"]) == (413, "too_large", {"limit": 1000})


async def test_a_body_of_another_kind_is_refused(db: Database, clock: Clock) -> None:
    async with serving_api(db, [agent((), clock)], clock=clock) as api:
        headers = {"Content-Type": "text/plain"}
        status, problem, _ = await api.ask("POST", "/chats", b"{}", headers=headers)
        assert (status, problem["kind"]) == (415, "unsupported_media_type")


@pytest.mark.parametrize("each_server", ["aiohttp"], indirect=True)
async def test_a_body_that_is_not_encoded_as_it_says_is_refused(db: Database, clock: Clock) -> None:
    async with serving_api(db, [agent((), clock)], clock=clock) as api:
        headers = {**JSON, "Content-Encoding": "gzip"}
        for path in ("/chats", "/files", "/chats/import"):
            status, problem, sent = await api.ask("POST", path, b"{}", headers=headers)
            assert (status, problem["kind"]) == (400, "bad_request"), path
            assert "not encoded as its headers say" in problem["detail"]
            assert sent["Connection"] == "close"
        status, _, _ = await api.ask("POST", "/chats", compress(b"{}"), headers=headers)
        assert status == 201


async def test_a_key_that_is_none_is_refused(db: Database, clock: Clock) -> None:
    async with serving_api(db, [agent((), clock)], clock=clock) as api:
        status, problem, _ = await api.post("/chats", key="x" * 201)
        assert (status, problem["kind"]) == (400, "bad_request")
        assert "Idempotency-Key" in problem["detail"]


async def test_who_may_only_look_changes_nothing(db: Database, clock: Clock) -> None:
    async with serving_api(db, [agent((), clock)], clock=clock) as api:
        id = (await api.post("/chats", {"labels": {"shared": "bob"}})).body["id"]
        bob = api.of("bob")
        assert (await bob.get(f"/chats/{id}")).status == 200
        status, problem, _ = await bob.patch(f"/chats/{id}", {"title": "mine"})
        assert (status, problem["kind"]) == (403, "forbidden")
        assert (await api.of("ann:viewer").post("/chats")).status == 403
        status, problem, headers = await api.of("").get("/chats")
        assert (status, problem["kind"]) == (401, "unauthenticated")
        assert headers["WWW-Authenticate"] == "Bearer"
