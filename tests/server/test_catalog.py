"""What there is to choose from, whether it works, and how it is described."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.agent import Agent
from holdfast.cli.agent_builder import BaseDirectories
from holdfast.cli.agent_registry import complete_agents
from holdfast.cli.settings import HoldfastSettings
from holdfast.kernel.policy import ContextLimits, Policy
from holdfast.kernel.tool import tool
from holdfast.providers import profile_lookup
from holdfast.providers.demo import Demo
from holdfast.server.access_policy import POLICY
from holdfast.server.event_codec import LIST_PAYLOADS, PAYLOADS
from holdfast.server.identity.encrypted_secrets import encrypt, keyring, store_secret
from holdfast.server.operation import OPERATIONS
from holdfast.server.routes.health import document
from holdfast.store.database import Database, Unavailable
from holdfast.testing import Clock, ScriptedModel, ports
from tests.server.api import agent, serving_api
from tests.test_host import ask_user, pay

pytestmark = pytest.mark.usefixtures("each_server")


async def test_agents_and_models_are_those_of_the_host(
    db: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")
    agents = [agent((), clock, name="ops", tools=[ask_user], effort="low")]
    async with serving_api(db, agents, clock=clock) as api:
        (shown,) = (await api.get("/agents")).body["agents"]
        assert (shown["name"], shown["effort"]) == ("ops", "low")
        models = (await api.get("/models")).body["models"]
        assert (models[0]["name"], models[0]["used_by"]) == (shown["model"], ["ops"])
        assert {"anthropic", "demo"} <= {model["provider"] for model in models}


async def test_a_chat_of_a_server_names_only_models_of_configured_providers(
    db: Database, clock: Clock, tmp_path: Path
) -> None:
    environ: dict[str, str] = {}
    place = BaseDirectories(str(tmp_path), str(tmp_path))
    agents = (await complete_agents(HoldfastSettings(), place, environ)).values()
    async with serving_api(db, agents, clock=clock) as api:
        chat = (await api.post("/chats", {})).body["id"]
        for method, path, body in (
            ("POST", "/chats", {}),
            ("PATCH", f"/chats/{chat}", {}),
            ("POST", f"/chats/{chat}/messages", {"prompt": "x"}),
        ):
            answer = await api.ask(method, path, {**body, "model": "vllm:x"})
            assert (answer.status, answer.body["kind"]) == (422, "invalid_input"), path
            assert "vllm is not configured on this server" in answer.body["detail"]
        environ["VLLM_BASE_URL"] = "http://gpu:8000"
        assert (await api.patch(f"/chats/{chat}", {"model": "vllm:x"})).status == 200


async def test_tools_say_what_they_do_and_who_is_asked(db: Database, clock: Clock) -> None:
    @tool(effect="pure")
    async def look() -> str:
        """Look."""
        return ""

    @tool(approval=lambda values: values["deep"], label="Digging")
    async def dig(deep: bool) -> str:
        """Dig."""
        return ""

    agents = [agent((), clock, tools=[ask_user, pay, look, dig])]
    async with serving_api(db, agents, clock=clock) as api:
        (shown,) = (await api.get("/agents")).body["agents"]
        keys = ("effect", "approval", "waits_for", "label")
        assert {one["name"]: tuple(one[key] for key in keys) for one in shown["tools"]} == {
            "ask_user": ("once", "never", "answer", "ask_user"),
            "pay": ("once", "ask", None, "pay"),
            "look": ("pure", "never", None, "look"),
            "dig": ("once", "depends", None, "Digging"),
        }


async def test_a_meter_knows_what_fits_and_when_it_is_summarized(
    db: Database, clock: Clock
) -> None:
    def known(name: str, window: int | None, threshold: int) -> Agent:
        model = ScriptedModel([], name=f"scripted:{name}", window=window)
        policy = Policy(context=ContextLimits(threshold=threshold))
        return Agent(name=name, model=model, policy=policy, ports=ports(clock=clock))

    agents = [known("sized", 50_000, 60), known("never", 50_000, 100), known("odd", None, 60)]
    async with serving_api(db, agents, clock=clock) as api:
        shown = (await api.get("/agents")).body["agents"]
        assert {
            one["name"]: (one["window"], one["threshold"], one["compacts_at"]) for one in shown
        } == {
            "sized": (50_000, 60, 30_000),
            "never": (50_000, None, None),
            "odd": (None, 60, None),
        }
        windows = {one["name"]: one["window"] for one in (await api.get("/models")).body["models"]}
        assert (windows["scripted:sized"], windows["scripted:odd"]) == (50_000, None)


async def test_a_picker_knows_efforts_and_prices_or_that_nobody_does(
    db: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")
    agents = [agent((), clock), Agent(name="shown", model=Demo())]
    async with serving_api(db, agents, clock=clock) as api:
        body = (await api.get("/models")).body
        assert body["priced_on"] == profile_lookup.profile_file().date
        models = {one["name"]: one for one in body["models"]}
        for id in profile_lookup.models("anthropic"):
            shown, facts = models[f"anthropic:{id}"], profile_lookup.lookup("anthropic", id)
            assert shown["window"] == facts.window
            assert shown["efforts"] == (None if facts.efforts is None else list(facts.efforts))
            price = None if facts.price is None else facts.price.output
            assert (shown["price"] or {"output": None})["output"] == price
        (demo,) = [one for one in body["models"] if one["provider"] == "demo"]
        assert (demo["name"], demo["efforts"], demo["price"]["input"]) == ("demo:demo", [], 0)
        assert demo["window"] > 0
        unknown = models[next(iter(models))]
        assert (unknown["efforts"], unknown["price"], unknown["files"]) == (None, None, None)


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


async def test_providers_say_where_their_key_comes_from(
    db: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")
    for name in ("GROQ_API_KEY", "MISTRAL_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    keys = keyring("A" * 43)
    async with serving_api(db, [agent((), clock)], clock=clock) as api:
        await db.write(lambda tx: store_secret(tx, encrypt(keys, "provider", "groq", "sk-g")))
        body = (await api.get("/providers")).body
        assert body["can_store"] is False
        shown = {one["name"]: one for one in body["providers"]}
        assert shown["anthropic"]["key"] == "environment"
        assert shown["anthropic"]["default"].startswith("anthropic:")
        assert (shown["groq"]["key"], shown["groq"]["stored"]) == ("stored", True)
        assert shown["groq"]["stored_at"] == clock.now()
        assert "stored but not in use" in shown["groq"]["remedy"]
        assert (shown["mistral"]["key"], shown["mistral"]["variables"]) == (
            None,
            ["MISTRAL_API_KEY"],
        )
        assert (shown["ollama"]["needs_key"], shown["azure"]["url"]) == (False, None)


async def test_providers_say_where_they_are_asked(
    db: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANTHROPIC_BASE_URL", "GROQ_BASE_URL", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MISTRAL_BASE_URL", "https://user:pw@proxy.example/m?key=secret")
    monkeypatch.setenv("GROQ_BASE_URL", "no address")
    monkeypatch.setenv("OPENAI_BASE_URL", "https://of-the-environment.example/v1")
    named = {"openai": "https://gateway.example/v1/"}
    async with serving_api(db, [agent((), clock)], clock=clock, base_urls=named) as api:
        answer = await api.get("/providers")
        urls = {one["name"]: one["url"] for one in answer.body["providers"]}
        assert urls["anthropic"] == "https://api.anthropic.com"
        assert urls["openai"] == "https://gateway.example/v1"
        assert urls["openai-chat"] == "https://of-the-environment.example/v1"
        assert urls["mistral"] == "https://proxy.example/m"
        assert urls["groq"] is None


async def test_a_provider_whose_address_is_in_the_settings_can_be_asked(
    db: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OLLAMA_BASE_URL", "AZURE_BASE_URL", "AZURE_OPENAI_ENDPOINT", "VLLM_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    for name in ("OLLAMA_HOST", "OLLAMA_API_KEY", "AZURE_OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MISTRAL_API_KEY", "sk-secret")
    monkeypatch.setenv("MISTRAL_BASE_URL", "no address, and not what it is asked at")
    named = {
        "azure": "https://mine.example/openai/v1",
        "mistral": "https://gateway.example/v1",
        "ollama": "http://gpu:11434/v1",
    }
    async with serving_api(db, [agent((), clock)], clock=clock, base_urls=named) as api:

        async def shown() -> dict[str, Any]:
            body = (await api.get("/providers")).body
            return {one["name"]: one for one in body["providers"]}

        providers = await shown()
        for name in ("ollama", "mistral"):
            assert (providers[name]["usable"], providers[name]["remedy"]) == (True, None)
        assert (providers["ollama"]["key"], providers["mistral"]["key"]) == (None, "environment")
        assert providers["vllm"]["usable"] is False
        monkeypatch.setenv("OLLAMA_API_KEY", "sk-needless")
        assert (await shown())["ollama"]["key"] == "environment"
        assert (providers["azure"]["usable"], providers["azure"]["remedy"]) == (
            False,
            "set AZURE_OPENAI_API_KEY",
        )
        monkeypatch.setenv("AZURE_OPENAI_API_KEY", "sk-other")
        azure = (await shown())["azure"]
        assert (azure["usable"], azure["remedy"], azure["key"]) == (True, None, "environment")
        models = (await api.get("/models")).body["models"]
        assert "mistral" in {one["provider"] for one in models}


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


async def test_who_asks_whether_a_server_is_ready_is_not_told_where_its_database_is(
    db: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def refuse(*_: object, **more: object) -> None:
        raise Unavailable("PostgreSQL at db.internal:5432 refuses the user: no role 'hf'")

    async with serving_api(db, [agent((), clock)], clock=clock, user="", worker=None) as api:
        monkeypatch.setattr(api.host, "workers", refuse)
        status, problem, _ = await api.get("/readyz")
    assert (status, problem["facts"]) == (503, {"part": "database"})
    assert "internal" not in problem["detail"]
    assert "db.internal" in caplog.text, "whoever runs it is told"


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


def test_the_document_has_the_data_of_every_event_of_a_stream() -> None:
    paths, known = document()["paths"], document()["components"]["schemas"]
    for path, payloads in (("/chats/{chat}/stream", PAYLOADS), ("/stream", LIST_PAYLOADS)):
        events = paths[f"/api/v1{path}"]["get"]["x-events"]
        assert list(events) == list(payloads)
        for name, kind in payloads.items():
            assert events[name] == {"$ref": f"#/components/schemas/{kind.__name__}"}
            assert kind.__name__ in known


@pytest.mark.parametrize("path", ["/chats/{chat}/stream", "/stream"])
def test_the_document_says_how_a_stream_is_gone_on_with(path: str) -> None:
    asked = {
        (one["in"], one["name"])
        for one in document()["paths"][f"/api/v1{path}"]["get"]["parameters"]
    }
    assert {("query", "cursor"), ("header", "Last-Event-ID")} <= asked


def test_everything_the_document_refers_to_is_in_it() -> None:
    known = document()["components"]["schemas"]
    assert all(name.isidentifier() for name in known)
    assert set(_refs(document())) <= {f"#/components/schemas/{name}" for name in known}


def test_each_member_of_a_union_has_its_tag_as_the_only_value_and_always() -> None:
    known = document()["components"]["schemas"]
    unions = list(_unions(document()))
    assert len(unions) > 5
    for union in unions:
        tag = union["discriminator"]["propertyName"]
        members = union["discriminator"]["mapping"]
        assert {one["$ref"] for one in union["anyOf"]} == set(members.values())
        for value, ref in members.items():
            member = known[ref.rpartition("/")[2]]
            assert member["properties"][tag]["enum"] == [value]
            assert tag in member["required"]


def _walk(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for one in inner:
        yield from _walk(one)


def _refs(value: Any) -> Iterator[str]:
    return (one["$ref"] for one in _walk(value) if isinstance(one.get("$ref"), str))


def _unions(value: Any) -> Iterator[dict[str, Any]]:
    return (one for one in _walk(value) if "mapping" in one.get("discriminator", {}))
