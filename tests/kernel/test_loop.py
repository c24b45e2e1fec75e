"""One run from its first event to its last: what it shows, what it commits, what it sends."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import Limits, tool
from holdfast.errors import ConfigError, RunFailed
from holdfast.events import Event
from holdfast.kernel.events import (
    MessageCommitted,
    Retrying,
    RunEnded,
    RunStarted,
    StepStarted,
    Summary,
    ToolCalled,
    ToolFinished,
    ToolStarted,
    Warned,
)
from holdfast.kernel.messages import user_message
from holdfast.kernel.model import ArgumentsDelta, CallStarted, ReasoningDelta, TextDelta
from holdfast.messages import Message, Text, Usage
from holdfast.models import Request
from holdfast.options import Policy, Ports, Retry
from holdfast.testing import (
    START,
    call,
    call_raw,
    cut,
    fail,
    finish,
    notice,
    pause,
    run_virtual,
    say,
    think,
    usage,
)
from tests.kernel.runs import (
    act,
    asks_client,
    check_events,
    events_of,
    kinds,
    look,
    names,
    now,
    only,
    outcome,
    requests_of,
    scripted,
    stumble,
    texts,
)

# --- The events ---------------------------------------------------------------------------------


async def test_a_text_answer_goes_through_the_whole_cycle_of_events() -> None:
    agent = scripted([[pause(2), say("Hello", chunks=2), pause(1), usage(input=9, output=2)]])
    prompt = user_message("Hi")
    answer = Message(
        "assistant",
        (Text("Hello"),),
        "answer",
        finish="stop",
        usage=Usage(9, 2),
        model="scripted:model",
        runtime=3_000,
    )

    events = await events_of(agent.run("Hi"))

    (step,) = only(StepStarted, events)
    assert events == [
        RunStarted(0),
        MessageCommitted(prompt, 0),
        StepStarted(1, 1, step.tokens),
        TextDelta("Hel"),
        TextDelta("lo"),
        MessageCommitted(answer, 1, first_delta=2.0, seconds=3.0),
        RunEnded("stop", Summary(1, 0, 0, Usage(9, 2), None, 3.0)),
    ]
    assert step.tokens > 0


async def test_a_tool_call_goes_through_the_whole_cycle_of_events() -> None:
    agent = scripted([[say("I will."), call("act", what="it", seconds=4)], "Done."], act)

    events = await events_of(agent.run("Do it"))

    assert names(events) == [
        "RunStarted",
        "MessageCommitted",
        "StepStarted",
        "TextDelta",
        "CallStarted",
        "ArgumentsDelta",
        "ArgumentsDelta",
        "ToolCalled",
        "MessageCommitted",
        "ToolStarted",
        "ToolFinished",
        "MessageCommitted",
        "StepStarted",
        "TextDelta",
        "MessageCommitted",
        "RunEnded",
    ]
    assert only(CallStarted, events) == [CallStarted("call_1", "act")]
    written = "".join(piece.text for piece in only(ArgumentsDelta, events))
    (called,) = only(ToolCalled, events)
    assert called.call.arguments == written == '{"what":"it","seconds":4}'
    assert only(ToolStarted, events) == [ToolStarted("call_1", "act", "act")]
    (done,) = only(ToolFinished, events)
    assert (done.result.text, done.result.outcome, done.seconds) == ("did it", "ok", 4.0)
    assert [step.number for step in only(StepStarted, events)] == [1, 2]
    assert [step.messages for step in only(StepStarted, events)] == [1, 3]
    assert check_events(events).summary == Summary(2, 1, 0, Usage(), None, 4.0)


async def test_reasoning_is_shown_as_it_arrives_and_kept_with_its_times() -> None:
    agent = scripted([[think("Let me see", signature="sig", chunks=2), pause(1), "Yes."]])

    run = agent.run("?")
    events = await events_of(run)

    assert [delta.text for delta in only(ReasoningDelta, events)] == ["Let m", "e see"]
    (reasoning, text) = run.history[1].parts
    assert (reasoning.signature, reasoning.started_at) == ("sig", START)  # type: ignore[union-attr]
    assert text == Text("Yes.")


async def test_a_pure_call_starts_while_its_message_is_still_being_written() -> None:
    agent = scripted([[call("look"), pause(5), say("and more")], "Done."], look)
    events = await events_of(agent.run("?"))
    started = names(events).index("ToolFinished")
    assert started < names(events).index("TextDelta")
    check_events(events)


async def test_a_call_with_an_effect_starts_only_after_its_message_is_committed() -> None:
    agent = scripted([[call("act"), pause(5), say("and more")], "Done."], act)
    events = await events_of(agent.run("?"))
    (started,) = (at for at, event in enumerate(events) if isinstance(event, ToolStarted))
    before = only(MessageCommitted, events[:started])
    assert [event.message.kind for event in before] == ["prompt", "answer"]


async def test_results_are_shown_as_they_finish_and_committed_in_call_order() -> None:
    calls = [call("look", what="a", seconds=3), call("look", what="b", seconds=1)]
    agent = scripted([calls, "Done."], look)

    run = agent.run("?")
    events = await events_of(run)

    shown = [event.result.call_id for event in only(ToolFinished, events)]
    assert shown == ["call_2", "call_1"]
    assert [result.call_id for result in run.history[2].results] == ["call_1", "call_2"]


async def test_what_is_committed_is_what_the_history_has() -> None:
    agent = scripted([call("look"), call("act"), "Done."], look, act)
    run = agent.run("?")
    events = await events_of(run)
    committed = tuple(event.message for event in only(MessageCommitted, events))
    assert committed == run.history == (await run).history == (await run).new


async def test_a_notice_of_the_provider_is_a_warning() -> None:
    events = await events_of(scripted([[notice("old model"), "Hi"]]).run("?"))
    assert only(Warned, events) == [Warned("old model")]


async def test_a_failed_attempt_is_announced_and_leaves_nothing_in_the_history() -> None:
    agent = scripted(
        [[say("Hel"), fail(status=529, retry_after=7)], "Hello"], policy=Policy(retry=Retry())
    )

    run = agent.run("?")
    events = await events_of(run)

    (retrying,) = only(Retrying, events)
    assert (retrying.attempt, retrying.of, retrying.delay) == (1, 10, 7.0)
    assert (retrying.kind, retrying.at) == ("overloaded", START + 7_000_000)
    assert texts(run.history, "answer") == ["Hello"]
    assert len(only(StepStarted, events)) == 1
    assert now() == 7.0


# --- The end ------------------------------------------------------------------------------------


def raising(*_: Any) -> Any:
    raise RuntimeError("broken hook")


@tool
async def stops() -> str:
    """End the turn."""
    return "over"


stops.stop_after = True

ENDINGS: dict[str, tuple[str, str | None, Any]] = {
    "text": ("stop", None, lambda: scripted(["Hi"])),
    "stop_after_tool": ("stop_after_tool", None, lambda: scripted([call("stops")], stops)),
    "limit": (
        "limit",
        None,
        lambda: scripted([call("look")], look, limits=Limits(steps=1)),
    ),
    "requires_action": (
        "requires_action",
        None,
        lambda: scripted([call("asks_client", n=1)], asks_client),
    ),
    "failing_clock": (
        "error",
        "internal",
        lambda: scripted([call("look")], look).replace(ports=Ports(now=raising)),
    ),
    "failing_tool": ("stop", None, lambda: scripted([call("stumble"), "Hm."], stumble)),
    "failing_gate": ("stop", None, lambda: scripted([call("act"), "Hm."], act, gate=raising)),
    "failing_middleware": (
        "stop",
        None,
        lambda: scripted([call("act"), "Hm."], act, middleware=(raising,)),
    ),
    "failing_guard": ("error", "escalated", lambda: scripted(["Hi"], guard=raising)),
    "failing_project": (
        "error",
        "prepare",
        lambda: scripted([], project=raising, policy=Policy(retry=Retry(attempts=2))),
    ),
    "failing_active": (
        "error",
        "prepare",
        lambda: scripted([], active=raising, policy=Policy(retry=Retry(attempts=2))),
    ),
    "failing_model": ("error", "internal", lambda: scripted([fail(ValueError("no"))])),
    "refusing_provider": ("error", "auth", lambda: scripted([fail(status=401)])),
    "cut_stream": (
        "error",
        "stream_cut",
        lambda: scripted([["Hi", cut()]], policy=Policy(retry=Retry(attempts=1))),
    ),
    "empty_answer": (
        "error",
        "empty_response",
        lambda: scripted([""], policy=Policy(retry=Retry(attempts=1))),
    ),
    "end_of_script": ("error", "config", lambda: scripted([])),
}


@pytest.mark.parametrize("ending", ENDINGS)
async def test_run_ended_is_the_last_event_exactly_once(ending: str) -> None:
    reason, kind, make = ENDINGS[ending]
    last = check_events(await events_of(make().run("?")))
    assert last.reason == reason
    assert (last.failure.kind if last.failure else None) == kind


@pytest.mark.parametrize("ending", ENDINGS)
async def test_awaiting_tells_the_same_as_the_last_event(ending: str) -> None:
    _, _, make = ENDINGS[ending]
    run = make().run("?")
    last = check_events(await events_of(run))
    result = await outcome(run)
    assert (result.reason, result.failure, result.summary, result.actions) == (
        last.reason,
        last.failure,
        last.summary,
        last.actions,
    )


async def test_a_model_that_fails_before_it_streams_fails_the_attempt() -> None:
    class Broken:
        name = "broken:model"
        window = None

        def stream(self, request: Request) -> Any:
            raise ConnectionResetError("no line")

    agent = scripted([], policy=Policy(retry=Retry(attempts=3))).replace(model=Broken())
    events = await events_of(agent.run("?"))
    assert [event.kind for event in only(Retrying, events)] == ["network", "network"]
    last = check_events(events)
    assert last.failure is not None
    assert "Given up after 3 attempts" in last.failure.message


async def test_awaiting_a_run_that_failed_raises_with_all_that_it_did() -> None:
    agent = scripted([call("act", what="it"), fail("bad key", status=401)], act)

    with pytest.raises(RunFailed, match=r"did not accept the API key.*\[auth: .*bad key") as caught:
        await agent.run("?")

    assert caught.value.failure.kind == "auth"
    result = caught.value.result
    assert (result.reason, result.failure) == ("error", caught.value.failure)
    assert kinds(result.history) == ["prompt", "answer", "results"]
    assert result.summary.steps == 1


async def test_what_a_failed_answer_showed_is_kept_for_people_alone() -> None:
    agent = scripted([[say("Half an ans"), fail(status=400)], "Whole."])
    failed = await outcome(agent.run("?"))
    partial = failed.history[-1]
    assert (partial.text, partial.finish, partial.visibility) == ("Half an ans", "error", "user")

    again = await agent.run(history=failed.history)

    assert again.text == "Whole."
    assert [m.text for m in requests_of(agent)[-1].messages] == ["?"]


# --- What it cost -------------------------------------------------------------------------------


async def test_usage_is_summed_over_all_attempts_also_the_failed_ones() -> None:
    agent = scripted(
        [
            [call("look"), usage(input=10, output=1, cache_write=5)],
            ["", usage(input=20, output=2)],  # empty: a failure, but not for free
            ["Done.", usage(input=30, output=3, cache_read=5, reasoning=1)],
        ],
        look,
    )
    result = await agent.run("?")
    assert len(requests_of(agent)) == 3
    assert result.summary.usage == Usage(60, 6, 1, 5, 5)


async def test_the_summary_of_a_run_leaves_out_what_was_before_it() -> None:
    agent = scripted(
        [[call("stumble"), usage(input=10)], "One.", ["Two.", usage(input=7)]], stumble
    )
    first = await agent.run("1")
    second = await agent.run("2", history=first.history)
    assert first.summary == Summary(2, 1, 1, Usage(10), None, 0.0)
    assert second.summary == Summary(1, 0, 0, Usage(7), None, 0.0)


async def test_the_seconds_of_an_answer_are_those_of_the_attempt_that_brought_it() -> None:
    agent = scripted([[pause(3), fail(status=500, retry_after=9)], [pause(2), "Hi", pause(1)]])
    events = await events_of(agent.run("?"))
    answer = only(MessageCommitted, events)[-1]
    assert (answer.first_delta, answer.seconds) == (2.0, 3.0)
    assert check_events(events).summary.seconds == 15.0


# --- What a run in memory cannot do -------------------------------------------------------------


async def test_a_tool_that_writes_with_its_result_is_refused_by_name() -> None:
    @tool(effect="commit")
    async def spawn() -> str:
        """Start another chat."""
        return "started"

    agent = scripted(["Hi"], look, spawn)
    with pytest.raises(ConfigError, match=r"^spawn: .*durable host"):
        agent.run("?")


def test_the_same_script_gives_the_same_events_each_time() -> None:
    async def play() -> list[Event]:
        turns = [[call("look", seconds=1), call("stumble")], fail(status=503), "Done."]
        return await events_of(scripted(turns, look, stumble).run("?"))

    assert run_virtual(play()) == run_virtual(play())


async def test_a_call_that_length_cut_off_is_asked_for_again_in_smaller_pieces() -> None:
    half = call_raw("act", '{"what": "a lo', ended=False)
    agent = scripted([[half, finish("length")], [call("act", what="a bit")], "Done."], act)
    result = await agent.run("Go.")
    assert (result.reason, result.text) == ("stop", "Done.")
    assert kinds(result.history) == ["prompt", "answer", "injected", "answer", "results", "answer"]
    assert len(requests_of(agent)) == 3
    assert [message.kind for message in requests_of(agent)[1].messages] == ["prompt", "injected"]
