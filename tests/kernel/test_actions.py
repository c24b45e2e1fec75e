"""Calls that somebody outside must act on: a client's result, an approval, an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from holdfast import Agent, RunResult, Tool, ToolContext, approve, tool
from holdfast.errors import ConfigError
from holdfast.events import Action
from holdfast.hooks import Approved, Context, Deny, Rewrite
from holdfast.kernel.events import ToolFinished, ToolProgressed, ToolStarted
from holdfast.kernel.tool import Values
from holdfast.messages import Text, ToolCall, ToolResult, dump, load
from holdfast.options import Calls, Policy
from holdfast.testing import ScriptedModel, call, call_raw, say
from tests.kernel.runs import (
    act,
    asks_client,
    check_events,
    events_of,
    finished,
    kinds,
    names,
    only,
    outcomes,
    requests_of,
    results_in,
    scripted,
)

done: list[tuple[str, int]] = []


@pytest.fixture(autouse=True)
def _forget() -> None:
    done.clear()


@tool(approval="ask")
async def delete(path: str, times: int = 1) -> str:
    """Delete a file."""
    done.append((path, times))
    return f"deleted {path}"


def actions(result: RunResult) -> dict[str, Action]:
    assert result.reason == "requires_action"
    return {action.call.id: action for action in result.actions}


async def asked_to_delete(*turns: Any, **options: Any) -> tuple[Agent, RunResult]:
    agent = scripted([call("delete", path="a.txt"), *turns, "Done."], delete, **options)
    return agent, await agent.run("?")


async def test_a_call_of_a_tool_that_was_removed_can_be_denied_and_not_approved() -> None:
    agent, asked = await asked_to_delete()
    without = agent.replace(tools=[])
    (action,) = asked.actions
    with pytest.raises(ConfigError, match=r"has no tool 'delete' any more.*Deny.*add the tool"):
        without.run(history=asked.history, resolve={action.call.id: approve(action)})
    denied = {action.call.id: Deny("It is gone.")}
    result = await without.run(history=asked.history, resolve=denied)
    assert result.text == "Done."
    assert done == []


# --- The client's tools -------------------------------------------------------------------------


async def test_a_call_of_the_client_s_parks_the_run() -> None:
    agent = scripted([call("asks_client", n=7), "Thanks."], asks_client)
    run = agent.run("?")
    events = await events_of(run)
    last = check_events(events)
    assert last.reason == "requires_action"
    (action,) = last.actions
    assert (action.kind, action.call.id, action.arguments) == ("client", "call_1", '{"n":7}')
    assert kinds(run.history) == ["prompt", "answer"]
    assert only(ToolFinished, events) == []


async def test_a_parked_run_goes_on_with_the_client_s_result() -> None:
    agent = scripted([call("asks_client", n=7), "Thanks."], asks_client)
    waiting = await agent.run("?")
    run = agent.run(history=waiting.history, resolve={"call_1": {"seven": 7}})
    events = await events_of(run)
    assert check_events(events, waiting.history).reason == "stop"
    assert results_in(run.history) == {"call_1": ("ok", '{"seven":7}')}
    assert finished(events) == {"call_1": 1}
    assert "ToolStarted" not in names(events)


async def test_a_parked_run_goes_on_after_it_was_stored() -> None:
    agent = scripted([call("asks_client", n=7), "Thanks."], asks_client)
    stored = dump((await agent.run("?")).history)
    result = await agent.run(history=load(stored), resolve={"call_1": "seven"})
    assert result.text == "Thanks."


async def test_a_parked_run_that_is_not_answered_parks_again_without_asking_the_model() -> None:
    agent = scripted([call("asks_client", n=7)], asks_client)
    waiting = await agent.run("?")
    again = await agent.run(history=waiting.history)
    assert again.actions == waiting.actions
    assert again.new == ()
    assert len(requests_of(agent)) == 1


@pytest.mark.parametrize(
    ("given", "outcome", "text"),
    [
        ("plain", "ok", "plain"),
        (None, "ok", "done"),
        ([1, 2], "ok", "[1,2]"),
        ([Text("a"), Text("b")], "ok", "ab"),
        (ToolResult("x", "y", (Text("broken"),), "failed"), "failed", "broken"),
        (Deny("not today"), "refused", "Denied by a person: not today"),
    ],
)
async def test_an_action_may_be_resolved_with_anything_that_a_tool_may_return(
    given: Any, outcome: str, text: str
) -> None:
    agent = scripted([call("asks_client", n=7), "Thanks."], asks_client)
    waiting = await agent.run("?")
    result = await agent.run(history=waiting.history, resolve={"call_1": given})
    (made,) = result.history[2].results
    assert (made.call_id, made.tool) == ("call_1", "asks_client")
    assert (made.outcome, made.text) == (outcome, text)


async def test_a_value_that_is_not_json_is_refused_before_the_run_begins() -> None:
    agent = scripted([call("asks_client", n=7), "Thanks."], asks_client)
    waiting = await agent.run("?")
    with pytest.raises(ConfigError, match=r"call_1.*JSON"):
        agent.run(history=waiting.history, resolve={"call_1": object()})


async def test_ours_are_run_before_the_client_is_asked() -> None:
    agent = scripted(
        [[call("asks_client", n=1), call("act", what="it"), call("asks_client", n=2)], "Thanks."],
        act,
        asks_client,
    )
    waiting = await agent.run("?")
    assert list(actions(waiting)) == ["call_1", "call_3"]
    assert results_in(waiting.history) == {"call_2": ("ok", "did it")}

    result = await agent.run(history=waiting.history, resolve={"call_1": "a", "call_3": "b"})

    assert result.text == "Thanks."
    sent = requests_of(agent)[-1].messages
    assert [r.call_id for m in sent for r in m.results] == ["call_1", "call_2", "call_3"]
    assert [r.text for m in sent for r in m.results] == ["a", "did it", "b"]


async def test_actions_may_be_resolved_one_by_one() -> None:
    calls = [call("asks_client", n=n) for n in (1, 2, 3)]
    agent = scripted([calls, "Thanks."], asks_client)
    result = await agent.run("?")
    for call_id, left in (("call_2", ["call_1", "call_3"]), ("call_1", ["call_3"])):
        result = await agent.run(history=result.history, resolve={call_id: call_id})
        assert list(actions(result)) == left
    result = await agent.run(history=result.history, resolve={"call_3": "call_3"})
    assert result.text == "Thanks."
    assert len(requests_of(agent)) == 2
    sent = requests_of(agent)[-1].messages
    assert [r.text for m in sent for r in m.results] == ["call_1", "call_2", "call_3"]


@pytest.mark.parametrize("arguments", ['{"n": "many"}', "{}", '{"n": ', "[]"])
async def test_invalid_arguments_of_a_client_s_call_do_not_park_the_run(arguments: str) -> None:
    agent = scripted([call_raw("asks_client", arguments), "I see."], asks_client)
    result = await agent.run("?")
    assert result.reason == "stop"
    assert outcomes(result.history) == {"call_1": "failed"}


async def test_an_invalid_call_of_the_client_s_is_told_while_another_parks_the_run() -> None:
    calls = [call_raw("asks_client", "{}"), call("asks_client", n=1)]
    waiting = await scripted([calls], asks_client).run("?")
    assert list(actions(waiting)) == ["call_2"]
    assert outcomes(waiting.history) == {"call_1": "failed"}


async def test_arguments_for_the_client_are_coerced_and_pass_the_gate() -> None:
    def gate(_context: Context, call: ToolCall, values: Mapping[str, Any]) -> Any:
        return Rewrite({"n": values["n"] + 1}) if values["n"] < 10 else Deny("too many")

    agent = scripted(
        [[call_raw("asks_client", '{"n": "5"}'), call("asks_client", n=50)]],
        asks_client,
        gate=gate,
    )
    waiting = await agent.run("?")
    assert actions(waiting)["call_1"].arguments == '{"n":6}'
    assert outcomes(waiting.history) == {"call_2": "refused"}


@pytest.mark.parametrize("waits_for", ["answer", "child"])
async def test_a_tool_may_wait_for_an_answer_or_a_child(waits_for: Any) -> None:
    asks = Tool(name="asks", schema={"type": "object"}, action=waits_for)
    agent = scripted([call("asks"), "Thanks."], asks)
    waiting = await agent.run("?")
    assert [action.kind for action in waiting.actions] == [waits_for]
    result = await agent.run(history=waiting.history, resolve={"call_1": "blue"})
    assert result.text == "Thanks."


async def test_the_client_s_result_may_end_the_turn() -> None:
    last = Tool(name="last", schema={"type": "object"}, stop_after=True)
    agent = scripted([call("last")], last)
    waiting = await agent.run("?")
    result = await agent.run(history=waiting.history, resolve={"call_1": "over"})
    assert result.reason == "stop_after_tool"


# --- What cannot be resolved --------------------------------------------------------------------


async def test_an_unknown_call_is_refused_with_those_that_wait() -> None:
    agent = scripted([[call("asks_client", n=1), call("asks_client", n=2)]], asks_client)
    waiting = await agent.run("?")
    with pytest.raises(ConfigError, match=r"'call_9'.*call_1, call_2"):
        agent.run(history=waiting.history, resolve={"call_9": "?"})


async def test_a_call_that_has_its_result_cannot_be_resolved_again() -> None:
    agent = scripted([call("asks_client", n=1), "Thanks."], asks_client)
    waiting = await agent.run("?")
    result = await agent.run(history=waiting.history, resolve={"call_1": "1"})
    with pytest.raises(ConfigError, match="Waiting: none"):
        agent.run(history=result.history, resolve={"call_1": "2"})


def test_nothing_can_be_resolved_without_a_history() -> None:
    with pytest.raises(ConfigError, match="Waiting: none"):
        scripted(["Hi"]).run("?", resolve={"call_1": "1"})


# --- Approval -----------------------------------------------------------------------------------


async def test_a_call_that_needs_approval_parks_the_run_and_is_not_run() -> None:
    _, waiting = await asked_to_delete()
    action = actions(waiting)["call_1"]
    assert (action.kind, action.arguments) == ("approval", '{"path":"a.txt"}')
    assert len(action.digest) == 64
    assert done == []


async def test_an_approved_call_is_run() -> None:
    agent, waiting = await asked_to_delete()
    run = agent.run(history=waiting.history, resolve={"call_1": approve(waiting.actions[0])})
    events = await events_of(run)
    check_events(events, waiting.history)
    assert done == [("a.txt", 1)]
    assert results_in(run.history) == {"call_1": ("ok", "deleted a.txt")}
    assert len(only(ToolStarted, events)) == 1


async def test_a_denied_call_is_not_run_and_the_model_is_told_why() -> None:
    agent, waiting = await asked_to_delete()
    result = await agent.run(history=waiting.history, resolve={"call_1": Deny("keep it")})
    assert done == []
    assert results_in(result.history) == {"call_1": ("refused", "Denied by a person: keep it")}
    assert result.text == "Done."


async def test_an_approval_with_other_arguments_runs_those_and_tells_the_model() -> None:
    agent, waiting = await asked_to_delete()
    approval = approve(waiting.actions[0], {"path": "b.txt", "times": "2"})
    result = await agent.run(history=waiting.history, resolve={"call_1": approval})
    assert done == [("b.txt", 2)]
    (outcome, text) = results_in(result.history)["call_1"]
    assert outcome == "ok"
    assert '{"path":"b.txt","times":2}' in text
    assert "deleted b.txt" in text
    assert result.history[1].calls[0].arguments == '{"path":"a.txt"}'


async def test_an_approval_with_arguments_that_do_not_fit_runs_nothing() -> None:
    agent, waiting = await asked_to_delete()
    approval = approve(waiting.actions[0], {"times": 2})
    with pytest.raises(ConfigError, match="the changed arguments of call_1 do not fit"):
        await agent.run(history=waiting.history, resolve={"call_1": approval})
    assert done == []


async def test_an_approval_of_something_else_asks_again() -> None:
    agent, waiting = await asked_to_delete()
    resolved = {"call_1": Approved("0" * 64)}
    again = await agent.run(history=waiting.history, resolve=resolved)
    assert again.actions == waiting.actions
    assert done == []


async def test_an_approval_is_asked_for_again_when_the_gate_now_changes_the_arguments() -> None:
    rewriting = False

    def gate(_context: Context, call: ToolCall, values: Mapping[str, Any]) -> Any:
        return Rewrite({"path": "/safe/a.txt"}) if rewriting else None

    agent, waiting = await asked_to_delete(gate=gate)
    rewriting = True
    approval = {"call_1": approve(waiting.actions[0])}
    again = await agent.run(history=waiting.history, resolve=approval)
    assert "/safe/a.txt" in actions(again)["call_1"].arguments
    assert done == []
    approval = {"call_1": approve(again.actions[0])}
    await agent.run(history=again.history, resolve=approval)
    assert done == [("/safe/a.txt", 1)]


async def test_an_approval_of_a_tool_that_has_become_inactive_is_void() -> None:
    agent, waiting = await asked_to_delete()
    approval = {"call_1": approve(waiting.actions[0])}
    limited = agent.replace(active=lambda context: [])
    result = await limited.run(history=waiting.history, resolve=approval)
    assert done == []
    assert outcomes(result.history) == {"call_1": "refused"}


async def test_approvals_may_be_given_one_by_one() -> None:
    calls = [call("delete", path="a"), call("delete", path="b")]
    agent = scripted([calls, "Done."], delete)
    waiting = await agent.run("?")
    assert list(actions(waiting)) == ["call_1", "call_2"]
    given = {"call_2": approve(actions(waiting)["call_2"])}
    again = await agent.run(history=waiting.history, resolve=given)
    assert done == [("b", 1)]
    assert list(actions(again)) == ["call_1"]
    given = {"call_1": approve(actions(again)["call_1"])}
    result = await agent.run(history=again.history, resolve=given)
    assert (result.text, done) == ("Done.", [("b", 1), ("a", 1)])


async def test_approval_may_depend_on_the_arguments() -> None:
    @tool(approval=lambda values: values["amount"] > 100)
    async def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    agent = scripted([[call("pay", amount=1), call("pay", amount=1000)]], pay)
    waiting = await agent.run("?")
    assert results_in(waiting.history) == {"call_1": ("ok", "paid 1")}
    assert list(actions(waiting)) == ["call_2"]


async def test_a_person_sees_a_preview_of_what_is_asked() -> None:
    @tool(approval="ask", preview=lambda values: f"- {values['line']}")
    async def cut_line(line: str) -> str:
        """Remove a line."""
        return "cut"

    run = scripted([call("cut_line", line="x = 1")], cut_line).run("?")
    events = await events_of(run)
    (shown,) = only(ToolProgressed, events)
    assert (shown.what, shown.text) == ("preview", "- x = 1")
    assert check_events(events).actions[0].preview == "- x = 1"


async def test_a_prompt_with_results_keeps_the_results_and_comes_after_them() -> None:
    agent = scripted([call("asks_client", n=1), "Thanks."], asks_client)
    waiting = await agent.run("?")
    result = await agent.run("Here.", history=waiting.history, resolve={"call_1": "seven"})
    assert results_in(result.history) == {"call_1": ("ok", "seven")}
    assert kinds(result.history)[2:] == ["results", "prompt", "answer"]


async def test_asking_takes_no_time_and_leaves_no_task() -> None:
    _, waiting = await asked_to_delete()
    assert waiting.summary.seconds == 0.0
    assert waiting.summary.tool_calls == 0
    await asyncio.sleep(0)


async def test_a_tool_and_its_hooks_may_look_at_what_was_said_before() -> None:
    seen: dict[str, list[str]] = {}

    def look(where: str, context: ToolContext) -> None:
        seen[where] = [f"{message.role}: {message.text}" for message in context.history]

    async def validate(context: ToolContext, values: Values) -> None:
        await context.progress("nobody is told")
        look("validate", context)

    def preview(context: ToolContext, values: Values) -> str:
        context.progress("nobody is told")
        look("preview", context)
        return f"remember {values['line']}"

    @tool(validate=validate, preview=preview)
    async def remember(context: ToolContext, line: str) -> str:
        """Remember a line."""
        look("run", context)
        return line

    model = ScriptedModel([[say("Well."), call("remember", line="x")], "Done."])
    events = [event async for event in Agent(model=model, tools=[remember]).run("Go.")]

    assert [text.text for text in events if isinstance(text, ToolProgressed)] == ["remember x"]
    assert list(seen) == ["validate", "preview", "run"]
    assert set(map(tuple, seen.values())) == {("user: Go.", "assistant: Well.")}


async def test_a_preview_that_is_too_long_says_that_it_is_cut() -> None:
    @tool(approval="ask", preview=lambda values: values["text"])
    async def write(text: str) -> str:
        """Write a text."""
        return text

    model = ScriptedModel([call("write", text="x" * 50)])
    policy = Policy(calls=Calls(progress_length=10))
    result = await Agent(model=model, tools=[write], policy=policy).run("Go.")

    assert result.actions[0].preview == "x" * 10 + "\n[… 40 more characters, not shown]"
