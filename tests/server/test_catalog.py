"""What there is to choose from, whether it works, and how it is described."""

from __future__ import annotations

import pytest

from holdfast.server.operation import OPERATIONS
from holdfast.server.policy import POLICY
from holdfast.store.database import Database
from holdfast.testing import Clock
from tests.server.kit import agent, serving_api
from tests.test_host import ask_user


async def test_agents_and_models_are_those_of_the_host(
    db: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")
    agents = [agent((), clock, name="ops", tools=[ask_user], effort="low")]
    async with serving_api(db, agents, clock=clock) as api:
        (shown,) = (await api.get("/agents")).body["agents"]
        assert (shown["name"], shown["effort"]) == ("ops", "low")
        assert shown["tools"] == [
            {"name": "ask_user", "description": "Ask.", "waits_for": "answer"}
        ]
        models = (await api.get("/models")).body["models"]
        assert models[0] == {"name": shown["model"], "provider": "scripted", "used_by": ["ops"]}
        assert {"anthropic", "demo"} <= {model["provider"] for model in models}


async def test_providers_say_what_they_lack_and_show_no_key(
    db: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")
    monkeypatch.delenv("GROQ_API_KEY", raising=False)
    async with serving_api(db, [agent((), clock)], clock=clock) as api:
        answer = await api.get("/providers")
        providers = {one["name"]: one for one in answer.body["providers"]}
        assert providers["anthropic"]["usable"] is True
        assert (providers["groq"]["usable"], providers["groq"]["remedy"]) == (
            False,
            "set GROQ_API_KEY",
        )
        assert "sk-secret" not in str(answer.body)


async def test_a_server_whose_worker_lives_is_ready(db: Database, clock: Clock) -> None:
    async with serving_api(db, [agent((), clock)], clock=clock, user="") as api:
        for prefix in ("", "/api/v1"):
            assert (await api.ask("GET", "/healthz", prefix=prefix)).body == {"status": "ok"}
            ready = await api.ask("GET", "/readyz", prefix=prefix)
            assert ready[:2] == (200, {"status": "ready", "workers": 1})


async def test_a_server_without_a_worker_is_not_ready(db: Database, clock: Clock) -> None:
    async with serving_api(db, [agent((), clock)], clock=clock, worker=None) as api:
        status, problem, _ = await api.get("/readyz")
        assert (status, problem["kind"], problem["facts"]) == (
            503,
            "not_ready",
            {"part": "worker"},
        )
        assert (await api.get("/healthz")).status == 200


async def test_the_document_describes_every_operation(db: Database, clock: Clock) -> None:
    async with serving_api(db, [agent((), clock)], clock=clock, user="") as api:
        status, document, _ = await api.get("/openapi.json")
        assert (status, document["openapi"]) == (200, "3.1.0")
        described = {
            (method.upper(), path.removeprefix("/api/v1"))
            for path, methods in document["paths"].items()
            for method in methods
        }
        assert described == set(OPERATIONS)
        ids = [one["operationId"] for path in document["paths"].values() for one in path.values()]
        assert len(ids) == len(set(ids))


def test_every_operation_is_in_the_policy() -> None:
    assert set(OPERATIONS) <= set(POLICY)
