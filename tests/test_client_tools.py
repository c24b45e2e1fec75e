"""Tools that a client declares for one chat: called by the model, run by the client."""

from __future__ import annotations

from typing import Any, Final

import anyio
import pytest

from holdfast.chats import ClientTool
from holdfast.errors import InvalidInput
from holdfast.store.database import Database
from holdfast.testing import Clock, ScriptedModel, call
from tests.client.served import connected
from tests.server.api import agent, serving_api
from tests.test_host import hosting, pay

OPEN_PAGE: Final = ClientTool(
    "open_page",
    "Open a page of the application.",
    {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
)
DECLARED: Final = {
    "name": "open_page",
    "description": "Open a page of the application.",
    "schema": OPEN_PAGE.schema,
}


def names_sent(model: Any) -> list[list[str]]:
    """Names of the tools in each request to the model."""
    assert isinstance(model, ScriptedModel)
    return [[spec.name for spec in request.tools] for request in model.requests]


async def test_the_model_calls_a_tool_of_the_client_and_reads_its_result(
    db: Database, clock: Clock
) -> None:
    async with hosting(db, clock, [call("open_page", path="/bills"), "Opened."], [pay]) as host:
        chat = await host.create("Show my bills.", client_tools=[OPEN_PAGE])
        result = await chat.rest()
        assert result.reason == "requires_action"
        (action,) = result.actions
        assert (action.kind, action.call.tool, action.arguments) == (
            "client",
            "open_page",
            '{"path":"/bills"}',
        )
        assert (await chat.read()).client_tools == ("open_page",)
        await chat.resolve({action.call.id: "3 bills"})
        assert (await chat.rest()).text == "Opened."
        results = [one for message in await chat.history() for one in message.results]
        assert [one.text for one in results] == ["3 bills"]
        assert names_sent(host.agent(None).model) == [["pay", "open_page"]] * 2


async def test_a_chat_without_client_tools_does_not_have_those_of_another(
    db: Database, clock: Clock
) -> None:
    async with hosting(db, clock, ["One.", "Two."], [pay]) as host:
        await (await host.create("?", client_tools=[OPEN_PAGE])).rest()
        await (await host.create("?")).rest()
        assert names_sent(host.agent(None).model) == [["pay", "open_page"], ["pay"]]


async def test_client_tools_can_be_replaced_and_removed(db: Database, clock: Clock) -> None:
    other = ClientTool("close_page", timeout=30)
    async with hosting(db, clock, ["One.", "Two.", "Three."]) as host:
        chat = await host.create("?", client_tools=[OPEN_PAGE])
        await chat.rest()
        assert (await chat.update(client_tools=[other])).client_tools == ("close_page",)
        await chat.send("?")
        await chat.rest()
        assert (await chat.update(client_tools=[])).client_tools == ()
        await chat.send("?")
        await chat.rest()
        assert names_sent(host.agent(None).model) == [["open_page"], ["close_page"], []]


async def test_a_call_that_the_client_does_not_answer_in_time_ends(
    db: Database, clock: Clock
) -> None:
    slow = ClientTool("ask_browser", timeout=30)
    async with hosting(db, clock, [call("ask_browser"), "Too late."]) as host:
        chat = await host.create("?", client_tools=[slow])
        before = clock.now()
        result = await chat.rest()
        while result.reason == "requires_action":
            await anyio.sleep(5)
            result = await chat.rest()
        assert result.text == "Too late."
        assert 30_000_000 <= clock.now() - before < 60_000_000


async def test_arguments_that_do_not_fit_the_schema_are_answered_without_the_client(
    db: Database, clock: Clock
) -> None:
    async with hosting(db, clock, [call("open_page"), "Sorry."]) as host:
        chat = await host.create("?", client_tools=[OPEN_PAGE])
        assert (await chat.rest()).text == "Sorry."


async def test_a_fork_keeps_the_client_tools(db: Database, clock: Clock) -> None:
    async with hosting(db, clock, ["One."]) as host:
        chat = await host.create("?", client_tools=[OPEN_PAGE])
        await chat.rest()
        fork = await chat.fork(1)
        assert (await fork.read()).client_tools == ("open_page",)


@pytest.mark.parametrize(
    ("declared", "why"),
    [
        ([ClientTool("pay")], "has a tool 'pay' already"),
        ([OPEN_PAGE, OPEN_PAGE], "two tools are named 'open_page'"),
        ([ClientTool("x", schema={"type": "nonsense"})], "client_tools: "),
        ([ClientTool("x", description="a" * 70_000)], "bytes as JSON: use at most"),
        ([ClientTool(f"x{n}") for n in range(65)], "use at most 64"),
        (["open_page"], "use ClientTool"),
        ("open_page", "use a list"),
    ],
    ids=["taken", "twice", "schema", "size", "number", "text", "no list"],
)
async def test_a_declaration_that_cannot_work_is_refused(
    db: Database, clock: Clock, declared: Any, why: str
) -> None:
    async with hosting(db, clock, tools=[pay], worker=None) as host:
        with pytest.raises(InvalidInput, match=why):
            await host.create("?", client_tools=declared)
        chat = await host.create("?")
        with pytest.raises(InvalidInput, match=why):
            await chat.update(client_tools=declared)


# --- over HTTP ---


async def test_a_client_declares_and_answers_its_tools_over_http(
    db: Database, clock: Clock
) -> None:
    script = [call("open_page", path="/bills"), "Opened."]
    async with serving_api(db, [agent(script, clock)], clock=clock) as api:
        created = await api.post("/chats", {"prompt": "Show.", "client_tools": [DECLARED]})
        assert created.status == 201
        id = created.body["id"]
        assert created.body["client_tools"] == ["open_page"]
        await api.rest(id)
        (action,) = (await api.get(f"/chats/{id}/actions")).body["actions"]
        assert action["kind"] == "client"
        answers = {action["call"]["id"]: {"type": "result", "result": "3 bills"}}
        assert (await api.post(f"/chats/{id}/actions", {"answers": answers})).status == 202
        assert (await api.rest(id))["status"] == "idle"
        changed = await api.patch(f"/chats/{id}", {"client_tools": []})
        assert changed.body["client_tools"] == []


@pytest.mark.parametrize(
    ("declared", "status"),
    [
        ({"name": "has spaces"}, 422),
        ({"name": "x", "schema": {"type": "nonsense"}}, 422),
        ({"name": "x", "timeout": 0}, 422),
        ({"name": "x", "function": "y"}, 422),
    ],
    ids=["name", "schema", "timeout", "unknown field"],
)
async def test_a_declaration_that_cannot_work_is_a_problem(
    db: Database, clock: Clock, declared: Any, status: int
) -> None:
    async with serving_api(db, [agent(["One."], clock)], clock=clock) as api:
        refused = await api.post("/chats", {"prompt": "?", "client_tools": [declared]})
        assert refused.status == status
        assert refused.body["detail"]


async def test_the_python_client_declares_tools_as_an_embedded_host_does(
    db: Database, clock: Clock
) -> None:
    script = [call("open_page", path="/bills"), "Opened."]
    async with connected(db, [agent(script, clock)], clock) as (_, host):
        chat = await host.create("Show.", client_tools=[OPEN_PAGE])
        (action,) = (await chat.rest()).actions
        await chat.resolve({action.call.id: "3 bills"})
        assert (await chat.rest()).text == "Opened."
        assert (await chat.update(client_tools=[])).client_tools == ()
