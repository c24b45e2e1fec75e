"""Talking to a chat over HTTP: messages, the turn, the queue, actions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anyio
import pytest

from holdfast import Limits
from holdfast.chat.stream import MAX_RESULT_SIZE
from holdfast.kernel.tool import Tool
from holdfast.store.database import Database
from holdfast.testing import Clock, call, fail, usage
from tests.kernel.runs import look
from tests.server.api import Api, agent, serving_api
from tests.test_host import ask_user, pay

pytestmark = pytest.mark.usefixtures("each_server")

client_tool = Tool(
    name="open_page", description="Open.", schema={"type": "object"}, action="client"
)


async def begun(api: Api, prompt: Any = "hi", **more: Any) -> str:
    status, made, _ = await api.post("/chats", {"prompt": prompt, **more})
    assert status == 201, made
    return str(made["id"])


def texts(messages: Sequence[Any]) -> list[str]:
    return ["".join(part.get("text", "") for part in m["message"]["parts"]) for m in messages]


async def history(api: Api, id: str, **query: Any) -> list[str]:
    return texts((await api.get(f"/chats/{id}/messages", **query)).body["messages"])


# --- messages ---


async def test_what_is_said_is_answered(db: Database, clock: Clock) -> None:
    async with serving_api(db, [agent(["one", "two"], clock)], clock=clock) as api:
        id = await begun(api)
        await api.rest(id)
        parts = [{"type": "text", "text": "look"}, {"type": "source", "url": "https://x.test"}]
        sent = await api.post(f"/chats/{id}/messages", {"prompt": parts})
        assert sent[:2] == (202, {"number": 3, "queued": None})
        await api.rest(id)
        assert await history(api, id) == ["hi", "one", "look", "two"]


async def test_messages_come_in_pages_from_either_end(db: Database, clock: Clock) -> None:
    script = [f"answer {n}" for n in range(4)]
    async with serving_api(db, [agent(script, clock)], clock=clock) as api:
        id = await begun(api)
        await api.rest(id)
        for _ in range(3):
            await api.post(f"/chats/{id}/messages", {"prompt": "more"})
            await api.rest(id)
        for name, place in (("before", None), ("after", 0)):
            numbers: list[int] = []
            while True:
                page = (await api.get(f"/chats/{id}/messages", limit=3, **{name: place})).body
                found = [message["number"] for message in page["messages"]]
                numbers = found + numbers if name == "before" else numbers + found
                place = page["next"]
                if place is None:
                    break
            assert numbers == list(range(1, 9))
        assert (await api.get(f"/chats/{id}/messages", after=8)).body["messages"] == []


async def test_a_page_of_large_messages_has_fewer_of_them(db: Database, clock: Clock) -> None:
    async with serving_api(db, [agent(["x" * MAX_RESULT_SIZE, "y"], clock)], clock=clock) as api:
        id = await begun(api)
        await api.rest(id)
        await api.post(f"/chats/{id}/messages", {"prompt": "more"})
        await api.rest(id)
        for name, place, pages in (
            ("before", None, [[3, 4], [2], [1]]),
            ("after", 0, [[1], [2], [3, 4]]),
        ):
            found = []
            while True:
                page = (await api.get(f"/chats/{id}/messages", **{name: place})).body
                found.append([message["number"] for message in page["messages"]])
                place = page["next"]
                if place is None:
                    break
            assert found == pages


async def test_an_edit_supersedes_and_runs_again(db: Database, clock: Clock) -> None:
    async with serving_api(db, [agent(["one", "two"], clock)], clock=clock) as api:
        id = await begun(api)
        await api.rest(id)
        status, revision, _ = await api.patch(f"/chats/{id}/messages/1", {"prompt": "hello"})
        assert (status, revision["number"], revision["superseded"]) == (202, 3, [1, 2])
        await api.rest(id)
        assert await history(api, id) == ["hello", "two"]
        assert await history(api, id, superseded=True) == ["hi", "one", "hello", "two"]
        status, problem, _ = await api.patch(f"/chats/{id}/messages/4", {"prompt": "x"})
        assert (status, problem["kind"]) == (409, "not_a_prompt")
        status, problem, _ = await api.patch(f"/chats/{id}/messages/1", {"prompt": "x"})
        assert (status, problem["kind"], problem["facts"]) == (
            404,
            "message_not_found",
            {"number": 1},
        )


# --- the turn ---


async def test_a_fork_goes_its_own_way(db: Database, clock: Clock) -> None:
    async with serving_api(db, [agent(["one", "two"], clock)], clock=clock) as api:
        id = await begun(api)
        await api.rest(id)
        status, copy, _ = await api.post(f"/chats/{id}/fork", {"number": 2, "title": "copy"})
        assert (status, copy["messages"], copy["title"], copy["status"]) == (201, 2, "copy", "idle")
        other = (await api.post(f"/chats/{id}/fork", {"number": 1, "prompt": "hello"})).body
        await api.rest(other["id"])
        assert await history(api, other["id"]) == ["hello", "two"]
        assert await history(api, id) == ["hi", "one"]


async def test_a_fork_at_an_answer_with_a_prompt_says_what_to_do(
    db: Database, clock: Clock
) -> None:
    async with serving_api(db, [agent(["one"], clock)], clock=clock) as api:
        id = await begun(api)
        await api.rest(id)
        fork = {"number": 2, "prompt": "again"}
        status, problem, _ = await api.post(f"/chats/{id}/fork", fork)
        assert (status, problem["kind"]) == (409, "not_a_prompt")
        assert "not a prompt but an answer" in problem["detail"]
        assert "fork without a prompt" in problem["detail"]


async def test_a_call_of_a_tool_that_was_removed_cannot_be_approved(
    db: Database, clock: Clock
) -> None:
    async with serving_api(
        db, [agent([call("pay", amount=5)], clock, tools=[pay])], clock=clock
    ) as api:
        id = await begun(api)
        (action,) = await waiting(api, id)
    async with serving_api(db, [agent(["done"], clock)], clock=clock) as api:
        path = f"/chats/{id}/actions/{action['call']['id']}"
        allow = {"answer": {"type": "allow", "digest": action["digest"]}}
        status, problem, _ = await api.post(path, allow)
        assert (status, problem["kind"]) == (422, "invalid_input")
        assert "has no tool 'pay' any more" in problem["detail"]
        deny = {"answer": {"type": "deny", "reason": "It is gone."}}
        assert (await api.post(path, deny)).status == 202


async def test_a_turn_can_be_stopped(db: Database, clock: Clock) -> None:
    never = anyio.Event()
    async with serving_api(db, [agent([["half", never]], clock)], clock=clock) as api:
        id = await begun(api)
        status, chat, _ = await api.post(f"/chats/{id}/interrupt")
        assert (status, chat["status"]) == (202, "interrupting")
        now = await api.rest(id)
        assert (now["status"], now["outcome"]["reason"]) == ("idle", "interrupted")


async def test_a_title_can_be_written_anew(db: Database, clock: Clock) -> None:
    script = ["one", "A title", "..."]
    async with serving_api(db, [agent(script, clock)], clock=clock, titles=True) as api:
        id = (await api.post("/chats", {"prompt": "hi", "title": "Mine"})).body["id"]
        await api.rest(id)
        status, chat, _ = await api.post(f"/chats/{id}/title")
        assert (status, chat["title"], chat["titled_by"]) == (200, "A title", "model")
        status, problem, _ = await api.post(f"/chats/{id}/title")
        assert (status, problem["kind"]) == (409, "title_failed")
        assert (await api.get(f"/chats/{id}")).body["title"] == "A title"


async def test_an_error_can_be_tried_again(db: Database, clock: Clock) -> None:
    async with serving_api(db, [agent([fail(status=401), "whole"], clock)], clock=clock) as api:
        id = await begun(api)
        failed = await api.rest(id)
        assert (failed["status"], failed["error"]["kind"]) == ("error", "auth")
        assert (await api.post(f"/chats/{id}/retry")).status == 202
        await api.rest(id)
        assert await history(api, id) == ["hi", "whole"]
        status, problem, _ = await api.post(f"/chats/{id}/retry")
        assert (status, problem["kind"]) == (409, "transition_not_allowed")
        assert problem["facts"] == {"transition": "retry", "status": "idle"}


async def test_a_turn_that_reached_its_limit_is_continued(db: Database, clock: Clock) -> None:
    limited = agent([call("look"), "whole"], clock, tools=[look], limits=Limits(steps=1))
    async with serving_api(db, [limited], clock=clock) as api:
        id = await begun(api)
        stopped = await api.rest(id)
        limit = {"name": "steps", "scope": "turn", "used": 1.0, "maximum": 1.0}
        assert stopped["outcome"] == {"reason": "limit", "steps": 1, "limit": limit}
        result = (await api.get(f"/chats/{id}/result")).body["result"]
        assert (result["reason"], result["chat"]["outcome"]["limit"]) == ("limit", limit)
        assert (await api.post(f"/chats/{id}/resume")).status == 202
        assert (await api.rest(id))["outcome"]["reason"] == "stop"
        status, problem, _ = await api.post(f"/chats/{id}/resume")
        assert (status, problem["kind"]) == (409, "nothing_to_resume")


async def test_a_conversation_can_be_summarized(db: Database, clock: Clock) -> None:
    async with serving_api(db, [agent(["one", "Goal: all of it"], clock)], clock=clock) as api:
        id = (await api.post("/chats")).body["id"]
        status, problem, _ = await api.post(f"/chats/{id}/compact")
        assert (status, problem["kind"]) == (409, "nothing_to_compact")
        await api.post(f"/chats/{id}/messages", {"prompt": "hi"})
        await api.rest(id)
        status, chat, _ = await api.post(f"/chats/{id}/compact")
        assert (status, chat["compaction"]) == (202, "person")


# --- the queue ---


async def test_messages_wait_and_can_be_changed_moved_taken_back_and_promoted(
    db: Database, clock: Clock
) -> None:
    never = anyio.Event()
    async with serving_api(db, [agent([never, "now"], clock)], clock=clock) as api:
        id = await begun(api)
        queued = []
        for text in ("a", "b", "c"):
            sent = (await api.post(f"/chats/{id}/messages", {"prompt": text})).body
            queued.append(sent["queued"])
        a, b, c = queued
        base = f"/chats/{id}/queue"
        assert (await api.get(f"{base}/{b}")).body["message"]["parts"][0]["text"] == "b"
        status, body, _ = await api.put(base, {"order": [c, b, a]})
        assert (status, [one["id"] for one in body["queue"]]) == (200, [c, b, a])
        status, problem, _ = await api.put(base, {"order": [c]})
        assert (status, problem["kind"]) == (409, "wrong_order")
        body = (await api.patch(f"{base}/{a}", {"prompt": "A", "deliver": "steer"})).body
        assert [one["id"] for one in body["queue"]] == [a, c, b]
        status, gone, _ = await api.delete(f"{base}/{c}")
        assert (status, gone["id"]) == (200, c)
        status, problem, _ = await api.delete(f"{base}/{c}")
        assert (status, problem["kind"]) == (404, "queued_not_found")
        assert (await api.get(f"{base}/{c}")).status == 404
        assert (await api.delete(f"{base}/{a}")).status == 200
        status, receipt, _ = await api.post(f"{base}/{b}/promote")
        assert (status, receipt["queued"]) == (202, b)
        await api.rest(id)
        assert (await api.get(base)).body == {"queue": []}
        assert (await history(api, id))[-2:] == ["b", "now"]


# --- actions ---


async def waiting(api: Api, id: str) -> list[Any]:
    await api.rest(id)
    actions = (await api.get(f"/chats/{id}/actions")).body["actions"]
    return sorted(actions, key=lambda action: str(action["call"]["id"]))


async def outcome(api: Api, id: str, number: int) -> list[tuple[str, str]]:
    """How the calls of a message ended."""
    messages = (await api.get(f"/chats/{id}/messages")).body["messages"]
    parts = [part for m in messages if m["number"] == number for part in m["message"]["parts"]]
    return [
        (part.get("outcome", "ok"), "".join(one["text"] for one in part["content"]))
        for part in parts
    ]


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        ({"type": "allow"}, ("ok", "paid 5")),
        ({"type": "allow", "arguments": {"amount": 3}}, ("ok", "paid 3")),
        (
            {"type": "deny", "reason": "too much"},
            ("refused", "Denied by a person: too much"),
        ),
    ],
)
async def test_an_approval_is_given_changed_or_refused(
    db: Database, clock: Clock, answer: dict[str, Any], result: tuple[str, str]
) -> None:
    script = [call("pay", amount=5), "done"]
    async with serving_api(db, [agent(script, clock, tools=[pay])], clock=clock) as api:
        id = await begun(api)
        (action,) = await waiting(api, id)
        assert (action["kind"], action["arguments"]) == ("approval", '{"amount":5}')
        if answer["type"] == "allow":
            answer = {**answer, "digest": action["digest"]}
        path = f"/chats/{id}/actions/{action['call']['id']}"
        assert (await api.post(path, {"answer": answer})).status == 202
        await api.rest(id)
        ((ended, text),) = await outcome(api, id, 3)
        assert ended == result[0]
        assert result[1] in text
        status, problem, _ = await api.post(path, {"answer": answer})
        assert (status, problem["kind"]) == (409, "nothing_waits")


async def test_changed_arguments_that_do_not_fit_are_refused_and_the_action_stays(
    db: Database, clock: Clock
) -> None:
    script = [call("pay", amount=5), "done"]
    async with serving_api(db, [agent(script, clock, tools=[pay])], clock=clock) as api:
        id = await begun(api)
        (action,) = await waiting(api, id)
        answer = {"type": "allow", "digest": action["digest"], "arguments": {"amount": "much"}}
        path = f"/chats/{id}/actions/{action['call']['id']}"
        status, problem, _ = await api.post(path, {"answer": answer})
        assert status == 422
        assert "amount" in problem["detail"]
        assert await waiting(api, id) == [action]


@pytest.mark.parametrize(("scope", "asked"), [("tool", False), ("call", True)])
async def test_what_is_allowed_for_a_chat_is_not_asked_again(
    db: Database, clock: Clock, scope: str, asked: bool
) -> None:
    script = [call("pay", amount=5), call("pay", amount=5), call("pay", amount=6), "done"]
    async with serving_api(db, [agent(script, clock, tools=[pay])], clock=clock) as api:
        id = await begun(api)
        (action,) = await waiting(api, id)
        answer = {"type": "allow", "digest": action["digest"], "for_chat": scope}
        await api.post(f"/chats/{id}/actions/{action['call']['id']}", {"answer": answer})
        left = await waiting(api, id)
        assert [one["arguments"] for one in left] == (['{"amount":6}'] if asked else [])


async def test_who_changes_a_call_and_allows_it_for_a_chat_allows_what_they_made_of_it(
    db: Database, clock: Clock
) -> None:
    script = [call("pay", amount=500), call("pay", amount=3), call("pay", amount=500), "done"]
    async with serving_api(db, [agent(script, clock, tools=[pay])], clock=clock) as api:
        id = await begun(api)
        (action,) = await waiting(api, id)
        changed = {"arguments": {"amount": "3"}, "for_chat": "call"}
        answer = {"type": "allow", "digest": action["digest"], **changed}
        await api.post(f"/chats/{id}/actions/{action['call']['id']}", {"answer": answer})
        (left,) = await waiting(api, id)
        assert left["arguments"] == '{"amount":500}', "nobody has agreed to that"
        assert await outcome(api, id, 5) == [("ok", "paid 3")]


async def test_several_are_answered_together_or_not_at_all(db: Database, clock: Clock) -> None:
    script = [[call("pay", amount=1), call("ask_user"), call("open_page")], "done"]
    tools = [pay, ask_user, client_tool]
    async with serving_api(db, [agent(script, clock, tools=tools)], clock=clock) as api:
        id = await begun(api)
        actions = {action["call"]["tool"]: action for action in await waiting(api, id)}
        named = {tool: action["call"]["id"] for tool, action in actions.items()}
        answers = {
            named["pay"]: {"type": "allow", "digest": "another"},
            named["ask_user"]: {"type": "result", "result": {"colour": "blue"}},
            named["open_page"]: {
                "type": "result",
                "result": "no such page",
                "failed": True,
                "expected": True,
            },
        }
        status, problem, _ = await api.post(f"/chats/{id}/actions", {"answers": answers})
        assert (status, problem["kind"]) == (422, "wrong_answer")
        assert len(await waiting(api, id)) == 3
        answers[named["pay"]] = {"type": "allow", "digest": actions["pay"]["digest"]}
        status, chat, _ = await api.post(f"/chats/{id}/actions", {"answers": answers})
        assert (status, chat["status"]) == (202, "running")
        await api.rest(id)
        ended = {text: how for how, text in await outcome(api, id, 3)}
        assert ended['{"colour":"blue"}'] == "ok"
        assert ended["no such page"] == "failed"
        messages = (await api.get(f"/chats/{id}/messages")).body["messages"]
        parts = [part for stored in messages for part in stored["message"]["parts"]]
        assert [part.get("tool") for part in parts if part.get("expected")] == ["open_page"]


@pytest.mark.parametrize(
    ("tool", "answer"),
    [
        ("pay", {"type": "result", "result": "yes"}),
        ("pay", {"type": "result", "result": "yes", "failed": True}),
        ("ask_user", {"type": "allow", "digest": "x"}),
    ],
)
async def test_an_answer_of_the_wrong_kind_is_refused(
    db: Database, clock: Clock, tool: str, answer: dict[str, Any]
) -> None:
    script = [call(tool, **({"amount": 5} if tool == "pay" else {}))]
    async with serving_api(db, [agent(script, clock, tools=[pay, ask_user])], clock=clock) as api:
        id = await begun(api)
        (action,) = await waiting(api, id)
        path = f"/chats/{id}/actions/{action['call']['id']}"
        status, problem, _ = await api.post(path, {"answer": answer})
        assert (status, problem["kind"]) == (422, "wrong_answer")


# --- what it costs ---


async def test_usage_is_told_of_a_chat_and_of_all_day_by_day(db: Database, clock: Clock) -> None:
    script = [["one", usage(input=10, output=2)], ["two", usage(input=5, output=1)]]
    async with serving_api(db, [agent(script, clock)], clock=clock) as api:
        first = await begun(api)
        await api.rest(first)
        await begun(api.of("bob"))
        status, spent, _ = await api.get(f"/chats/{first}/usage", tree=True)
        assert (status, spent["usage"]["input"], spent["calls"]) == (200, 10, 1)
        report = (await api.get("/usage")).body
        assert report["total"]["usage"] == {"input": 10, "output": 2}
        assert len(report["days"]) == 1
        (day,) = report["days"]
        assert day["spent"] == report["total"]
        at = (await api.get(f"/chats/{first}")).body["created_at"]
        assert (await api.get("/usage", until=at)).body["days"] == []
