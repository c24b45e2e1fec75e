"""Export and import over HTTP: what comes back is what was there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest

from holdfast.store.database import Database
from holdfast.testing import Clock, call, think
from tests.server.kit import Answer, Api, agent, serving_api
from tests.server.test_talking import begun, waiting
from tests.test_host import ask_user

MEDIA = {"Content-Type": "application/x-ndjson"}


async def restore(api: Api, data: bytes, key: str | None = None, **query: Any) -> Answer:
    return await api.ask("POST", "/chats/import", data, query=query, headers=MEDIA, key=key)


async def messages(api: Api, id: str) -> list[Any]:
    found = (await api.get(f"/chats/{id}/messages", superseded=True)).body["messages"]
    for message in found:
        message.pop("revision")
    return found  # type: ignore[no-any-return]


async def test_an_import_has_the_same_history_as_what_was_exported(
    db: Database, clock: Clock
) -> None:
    script = [[think("hm"), "one \x00 \ud800"], "two", "three"]
    async with serving_api(db, [agent(script, clock)], clock=clock) as api:
        id = await begun(api, title="Old", labels={"a": "b"}, effort="low")
        await api.rest(id)
        await api.patch(f"/chats/{id}/messages/1", {"prompt": "again"})
        await api.rest(id)
        status, data, headers = await api.get(f"/chats/{id}/export")
        assert (status, headers["Content-Type"]) == (200, "application/x-ndjson; charset=utf-8")
        assert headers["Content-Disposition"] == f"attachment; filename*=UTF-8''chat-{id}.jsonl"
        other = api.of("bob")
        status, made, _ = await restore(other, data)
        assert status == 201
        same = ("title", "labels", "effort", "agent", "messages", "model")
        chat = (await api.get(f"/chats/{id}")).body
        assert {name: made[name] for name in same} == {name: chat[name] for name in same}
        assert (made["owner"], made["status"]) == ("bob", "idle")
        assert made["id"] != id
        assert await messages(other, made["id"]) == await messages(api, id)
        await other.post(f"/chats/{made['id']}/messages", {"prompt": "more"})
        assert (await other.rest(made["id"]))["messages"] == 6
        # The price was paid once.
        assert (await other.get(f"/chats/{made['id']}/usage")).body["calls"] <= 1


async def test_a_call_that_was_open_is_answered_in_the_import(db: Database, clock: Clock) -> None:
    script = [call("ask_user")]
    async with serving_api(db, [agent(script, clock, tools=[ask_user])], clock=clock) as api:
        id = await begun(api)
        assert len(await waiting(api, id)) == 1
        data = (await api.get(f"/chats/{id}/export")).body
        made = (await restore(api, data)).body
        assert (made["status"], made["messages"]) == ("idle", 3)
        assert (await messages(api, made["id"]))[:2] == await messages(api, id)


async def test_markdown_is_for_people(db: Database, clock: Clock) -> None:
    async with serving_api(db, [agent(["Hello"], clock)], clock=clock) as api:
        id = await begun(api, title="Greetings")
        await api.rest(id)
        status, data, headers = await api.get(f"/chats/{id}/export", format="markdown")
        assert (status, headers["Content-Type"]) == (200, "text/markdown; charset=utf-8")
        assert data.startswith(b"# Greetings\n")
        assert b"Hello" in data


async def test_another_agent_may_go_on(db: Database, clock: Clock) -> None:
    agents = [agent(["Hello"], clock), agent((), clock, name="other")]
    async with serving_api(db, agents, clock=clock) as api:
        id = await begun(api)
        await api.rest(id)
        data = (await api.get(f"/chats/{id}/export")).body
        assert (await restore(api, data, agent="other")).body["agent"] == "other"
        status, problem, _ = await restore(api, data, agent="nobody")
        assert (status, problem["kind"]) == (422, "invalid_input")


async def test_the_same_key_imports_once(db: Database, clock: Clock) -> None:
    async with serving_api(db, [agent(["Hello"], clock)], clock=clock) as api:
        id = await begun(api)
        await api.rest(id)
        data = (await api.get(f"/chats/{id}/export")).body
        first, again = [await restore(api, data, key="k") for _ in range(2)]
        assert first[:2] == again[:2]
        status, problem, _ = await restore(api, data + b"\n", key="k")
        assert (status, problem["kind"]) == (409, "key_reused")


BROKEN: Final[Mapping[str, Callable[[str], str | bytes]]] = {
    "empty": lambda text: "",
    "no JSON": lambda text: "no json",
    "no UTF-8": lambda text: b"\xff",
    "of a later version": lambda text: text.replace('"format":1', '"format":2'),
    "with a gap": lambda text: "\n".join((text.splitlines()[0], text.splitlines()[2])),
    "of the year 30000": lambda text: text.replace('"created_at":', '"created_at":9'),
    "counted backwards": lambda text: text.replace('"number":1', '"number":-1'),
    "of nobody": lambda text: text.replace('"role":"user"', '"role":"nobody"'),
    "too deep": lambda text: "[" * 100_000,
}


@pytest.mark.parametrize("how", BROKEN)
async def test_what_is_no_export_is_refused(db: Database, clock: Clock, how: str) -> None:
    async with serving_api(db, [agent(["Hello"], clock)], clock=clock) as api:
        id = await begun(api)
        await api.rest(id)
        bad = BROKEN[how]((await api.get(f"/chats/{id}/export")).body.decode())
        status, problem, _ = await restore(api, bad if isinstance(bad, bytes) else bad.encode())
        assert (status, problem["kind"]) in ((422, "invalid_body"), (422, "invalid_input"))
        assert len((await api.get("/chats")).body["chats"]) == 1
