"""Budgets over HTTP: read, set by an administrator, and lowered by the owner of a chat."""

from __future__ import annotations

from typing import Any, Final

import pytest

from holdfast.chat.budgets import Budgets, BudgetState
from holdfast.kernel.limits import Limits
from holdfast.options import WorkerOptions
from holdfast.server.identity.users import create_user
from holdfast.store.database import Database
from holdfast.testing import Clock, ScriptedModel, say, usage
from tests.client.served import connected
from tests.server.api import Api, agent, serving_api

USED: Final = {"steps": 1, "tokens": 100, "cost": 0.0, "seconds": 0.0}
UNUSED: Final = {"steps": 0, "tokens": 0, "cost": 0.0, "seconds": 0.0}


def limits(**set: Any) -> dict[str, Any]:
    return {"steps": None, "tokens": None, "cost": None, "seconds": None, **set}


def answering(clock: Clock, count: int = 9) -> Any:
    return agent([[say("Yes."), usage(input=100)]] * count, clock)


async def begun(api: Api) -> str:
    """A chat that has used a hundred tokens."""
    _, chat, _ = await api.post("/chats", {"prompt": "hello"})
    await api.rest(chat["id"])
    return str(chat["id"])


async def test_a_user_reads_their_budgets_and_what_was_used(db: Database, clock: Clock) -> None:
    budgets = Budgets(day=Limits(tokens=1_000), chat=Limits(steps=9))
    async with serving_api(db, [answering(clock)], clock=clock, budgets=budgets) as api:
        chat_id = await begun(api)
        status, report, _ = await api.get("/budgets")
        assert status == 200
        assert report == {
            "chat": {"limits": limits(steps=9), "used": None, "is_set": False},
            "user": {"limits": None, "used": USED, "is_set": False},
            "day": {"limits": limits(tokens=1_000), "used": USED, "is_set": False},
        }
        _, report, _ = await api.get(f"/chats/{chat_id}/budget")
        assert report["chat"] == {"limits": limits(steps=9), "used": USED, "is_set": False}
        assert (await api.of("bob").get("/budgets")).body["day"]["used"] == UNUSED
        assert (await api.of("bob").get(f"/chats/{chat_id}/budget")).status == 404


async def test_a_chat_stops_and_continues_once_an_administrator_raised_the_budget(
    db: Database, clock: Clock
) -> None:
    budgets = Budgets(user=Limits(tokens=100))
    async with serving_api(db, [answering(clock)], clock=clock, budgets=budgets) as api:
        chat_id = await begun(api)
        await api.post(f"/chats/{chat_id}/messages", {"prompt": "and?"})
        stopped = await api.rest(chat_id)
        assert stopped["error"]["kind"] == "budget"
        assert stopped["outcome"]["limit"] == {
            "name": "tokens",
            "scope": "user",
            "used": 100,
            "maximum": 100,
        }
        assert (await api.put("/budgets", {"user": {"tokens": 500}})).status == 403
        admin = api.of("ann:admin")
        status, report, _ = await admin.put("/budgets", {"user": {"tokens": 500}}, key="once")
        assert (status, report["user"]) == (
            200,
            {"limits": limits(tokens=500), "used": USED, "is_set": True},
        )
        assert (await admin.put("/budgets", {"user": {"tokens": 500}}, key="once")).body == report
        await api.post(f"/chats/{chat_id}/retry")
        assert (await api.rest(chat_id))["status"] == "idle"
        _, entries, _ = await admin.get("/audit", action="budget.set")
        assert [one["detail"] for one in entries["entries"]] == [{"user": {"tokens": 500}}]


async def test_an_administrator_sets_the_budgets_of_another_user(
    db: Database, clock: Clock
) -> None:
    async with serving_api(db, [answering(clock)], clock=clock) as api:
        await db.write(lambda tx: create_user(tx, "ann", "Ann", "member"))
        admin, path = api.of("eve:admin"), "/users/ann/budgets"
        assert (await api.get(path)).status == 403
        assert (await admin.get("/users/nobody/budgets")).status == 404
        assert (await admin.put("/users/nobody/budgets", {})).status == 404
        report = (await admin.put(path, {"day": {"steps": 1}, "chat": {}})).body
        assert report["day"] == {"limits": limits(steps=1), "used": UNUSED, "is_set": True}
        assert report["chat"]["limits"] == limits()
        assert (await admin.get(path)).body == report
        assert (await api.get("/budgets")).body == report
        chat_id = await begun(api)
        await api.post(f"/chats/{chat_id}/messages", {"prompt": "and?"})
        assert (await api.rest(chat_id))["error"]["kind"] == "budget"
        assert (await admin.put(path, {})).body["day"]["limits"] is None


async def test_the_owner_of_a_chat_may_lower_its_budget_and_only_an_administrator_raise_it(
    db: Database, clock: Clock
) -> None:
    budgets = Budgets(chat=Limits(tokens=2_000_000))
    async with serving_api(db, [answering(clock)], clock=clock, budgets=budgets) as api:
        chat_id = await begun(api)
        path = f"/chats/{chat_id}/budget"
        status, report, _ = await api.put(path, {"limits": {"tokens": 500, "cost": 0.1}})
        assert (status, report["chat"]["limits"]) == (200, limits(tokens=500, cost=0.1))
        for more in ({"tokens": 2_000_001}, {"steps": 3}, {}):
            status, problem, _ = await api.put(path, {"limits": more})
            assert (status, problem["kind"]) == (403, "forbidden")
            assert "tokens may be at most 2000000" in problem["detail"]
        admin = api.of("ann:admin")
        raised = (await admin.put(path, {"limits": {"tokens": 2_000_001}})).body
        assert raised["chat"] == {"limits": limits(tokens=2_000_001), "used": USED, "is_set": True}
        lowered = (await api.put(path, {"limits": None})).body
        assert lowered["chat"] == {
            "limits": limits(tokens=2_000_000),
            "used": USED,
            "is_set": False,
        }
        assert (await api.of("bob").put(path, {"limits": None})).status == 404


@pytest.mark.parametrize(
    "body",
    [
        {"user": {"tokens": 0}},
        {"user": {"tokens": 1.5}},
        {"user": {"cost": 0}},
        {"user": {"token": 5}},
        {"week": {"tokens": 5}},
        {"user": 5},
    ],
)
async def test_a_limit_that_is_none_is_refused(db: Database, clock: Clock, body: Any) -> None:
    async with serving_api(db, [answering(clock)], clock=clock, user="ann:admin") as api:
        status, problem, _ = await api.put("/budgets", body)
        assert (status, problem["kind"]) == (422, "invalid_body")


async def test_a_limit_of_cost_is_refused_for_a_model_without_a_price(
    db: Database, clock: Clock
) -> None:
    model = ScriptedModel([], name="ollama:tiny", priced=False)
    unpriced = agent(clock=clock).replace(model=model)
    async with serving_api(db, [unpriced], clock=clock, user="ann:admin") as api:
        _, chat, _ = await api.post("/chats", {})
        for path, body in (
            ("/budgets", {"day": {"cost": 1.0}}),
            (f"/chats/{chat['id']}/budget", {"limits": {"cost": 1.0}}),
        ):
            status, problem, _ = await api.put(path, body)
            assert status == 422
            assert "price of ollama:tiny is unknown" in problem["detail"]


async def test_a_server_without_a_worker_reads_and_sets_budgets(db: Database, clock: Clock) -> None:
    async with serving_api(
        db, [answering(clock)], clock=clock, worker=None, user="ann:admin"
    ) as api:
        assert (await api.put("/budgets", {"day": {"steps": 1}})).status == 200
    async with serving_api(db, [answering(clock)], clock=clock, worker=WorkerOptions()) as api:
        chat_id = await begun(api)
        await api.post(f"/chats/{chat_id}/messages", {"prompt": "and?"})
        assert (await api.rest(chat_id))["error"]["kind"] == "budget"


async def test_the_client_reads_and_sets_the_same(db: Database, clock: Clock) -> None:
    budgets = Budgets(chat=Limits(tokens=1_000))
    async with connected(db, [answering(clock)], clock, budgets=budgets) as (_, host):
        chat = await host.create("hello")
        await chat.rest()
        report = await chat.budget()
        assert report.chat.limits == Limits(tokens=1_000)
        assert report.chat.used is not None
        assert report.chat.used.tokens == 100
        assert report == await chat.set_budget(None)
        assert (await chat.set_budget(Limits(tokens=5))).chat == BudgetState(
            Limits(tokens=5), report.chat.used, is_set=True
        )
        assert (await host.budgets()).user == report.user
