"""What a run sends to its model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from holdfast import Limits
from holdfast.hooks import Context
from holdfast.kernel.events import (
    Retrying,
)
from holdfast.kernel.messages import Text, ToolCall, ToolResult, results_message, user_message
from holdfast.kernel.summary_checkpoint import SUMMARY_SECTIONS
from holdfast.messages import Message
from holdfast.models import Block, ProviderTool, Settings
from holdfast.testing import (
    call,
    fail,
    finish,
    say,
    think,
)
from tests.kernel.runs import (
    act,
    check_events,
    events_of,
    kinds,
    look,
    only,
    outcome,
    requests_of,
    results_in,
    scripted,
    stumble,
)

# --- Requests -----------------------------------------------------------------------------------


async def test_each_request_of_a_turn_begins_with_the_one_before_it() -> None:
    agent = scripted(
        [
            [think("hm", signature="s"), call("look", what="a"), call("act")],
            [say("so"), finish("length")],
            call("stumble"),
            "Done.",
        ],
        look,
        act,
        stumble,
        instructions="Be brief.",
    )
    await agent.run("?")

    requests = requests_of(agent)
    assert len(requests) == 4
    for earlier, request in pairwise(requests):
        assert request.messages[: len(earlier.messages)] == earlier.messages
        assert len(request.messages) > len(earlier.messages)
        assert (request.system, request.tools) == (earlier.system, earlier.tools)


async def test_the_agent_s_options_reach_every_request() -> None:
    settings = Settings(temperature=0.5, options={"scripted": {"seed": 1}})
    blocks = [Block("You are brief.", cache=True), Block("Today is Monday.")]
    agent = scripted(
        [call("look"), "Done."], look, effort="high", settings=settings, instructions=blocks
    )
    await agent.run("?")
    for request in requests_of(agent):
        assert (request.effort, request.settings) == ("high", settings)
        assert request.system == tuple(blocks)
        assert [spec.name for spec in request.tools] == ["look"]


async def test_provider_tools_are_in_every_request_and_not_in_one_for_a_summary() -> None:
    searches = ProviderTool("web_search", {"max_uses": 3}, {"acme": {"type": "search_1"}})
    long = json.dumps({"words": "many " * 1_000})
    summary = "\n".join(f"## {section}\nx" for section in SUMMARY_SECTIONS)
    agent = scripted(
        [long, summary, "{}"],
        look,
        provider_tools=[searches],
        output={"type": "object"},
        active=lambda context: [],
    )
    first = await agent.run("Hello?")
    await agent.run("Go on", history=first.history, compact=True)
    ask, summarize, again = requests_of(agent)
    assert ask.provider_tools == again.provider_tools == (searches,)
    assert ask.output == again.output is not None
    assert ask.cache_key == again.cache_key is not None
    assert ask.tools == ()
    assert (summarize.provider_tools, summarize.output, summarize.cache_key) == ((), None, None)


async def test_what_only_people_see_is_not_sent() -> None:
    agent = scripted([call("look"), "Done.", "Again."], look, limits=Limits(steps=1))
    limited = await outcome(agent.run("?"))
    assert limited.reason == "limit"
    await outcome(agent.run("Go on", history=limited.history))
    assert kinds(requests_of(agent)[-1].messages) == ["prompt", "answer", "results", "prompt"]


async def test_project_changes_what_is_sent_and_not_the_history() -> None:
    def newest(_context: Context, messages: Sequence[Message]) -> Sequence[Message]:
        return messages[-1:]

    agent = scripted(["One.", "Two."], project=newest)
    first = await agent.run("1")
    second = await agent.run("2", history=first.history)

    assert [message.text for message in requests_of(agent)[-1].messages] == ["2"]
    assert [message.text for message in second.history] == ["1", "One.", "2", "Two."]


async def test_what_project_tears_apart_is_repaired() -> None:
    def without_results(_context: Context, messages: Sequence[Message]) -> Sequence[Message]:
        return [message for message in messages if message.role != "tool"]

    def without_answers(_context: Context, messages: Sequence[Message]) -> Sequence[Message]:
        return [message for message in messages if message.role != "assistant"]

    for project, expected in ((without_results, {"call_1": "interrupted"}), (without_answers, {})):
        agent = scripted([call("look"), "Done."], look, project=project)
        result = await agent.run("?")
        sent = requests_of(agent)[-1].messages
        assert {c: o for c, (o, _) in results_in(sent).items()} == expected
        assert [m.role for m in sent] == (["user", "assistant", "tool"] if expected else ["user"])
        assert results_in(result.history)["call_1"][0] == "ok"


def removals(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [line for line in caplog.messages if line.startswith("sequence repair removed")]


async def test_what_a_repair_removed_is_logged_once_with_counts(
    caplog: pytest.LogCaptureFixture,
) -> None:
    orphan = results_message([ToolResult("x", "look", (Text("lost"),))])
    alone = ToolCall("p", "web_search", "{}", provider_executed=True)
    torn = Message("assistant", (Text("Hm."), alone), "answer", finish="stop")
    agent = scripted([call("look"), "Done."], look)
    with caplog.at_level("INFO", "holdfast"):
        await agent.run("And?", history=(user_message("?"), torn, orphan, orphan))
    assert removals(caplog) == [
        "sequence repair removed 1 tool calls and 2 tool results of the history from the request"
    ]


async def test_what_is_removed_of_what_project_gave_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def without_answers(_context: Context, messages: Sequence[Message]) -> Sequence[Message]:
        return [message for message in messages if message.role != "assistant"]

    agent = scripted([call("look"), "Done."], look, project=without_answers)
    with caplog.at_level("INFO", "holdfast"):
        await agent.run("?")
    assert removals(caplog) == [
        "sequence repair removed 0 tool calls and 1 tool results of what project returned from the "
        "request"
    ]


async def test_a_usual_run_removes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    agent = scripted([[call("look"), call("look")], call("look"), "Done."], look)
    with caplog.at_level("INFO", "holdfast"):
        await agent.run("?")
    assert removals(caplog) == []


@pytest.mark.parametrize("hook", ["project", "active"])
async def test_a_hook_that_fails_once_is_asked_again(hook: str) -> None:
    asked = 0

    def shaky(context: Context, *messages: Sequence[Message]) -> Any:
        nonlocal asked
        asked += 1
        if asked == 1:
            raise OSError("not yet")
        return messages[0] if hook == "project" else ["look"]

    hooks: dict[str, Any] = {hook: shaky}
    agent = scripted(["Hi"], look, **hooks)
    events = await events_of(agent.run("?"))
    (retrying,) = only(Retrying, events)
    assert retrying.kind == "prepare"
    assert check_events(events).reason == "stop"


async def test_a_model_that_failed_is_avoided_for_the_rest_of_the_step() -> None:
    agent = scripted([fail(status=529), fail(status=529), call("look"), "Done."], look)
    await agent.run("?")
    avoided = [request.avoid for request in requests_of(agent)]
    assert avoided == [frozenset(), {"scripted:model"}, {"scripted:model"}, frozenset()]


async def test_a_model_is_not_avoided_for_a_failure_that_another_would_have_too() -> None:
    agent = scripted(["", "Done."])
    await agent.run("?")
    assert [request.avoid for request in requests_of(agent)] == [frozenset()] * 2
