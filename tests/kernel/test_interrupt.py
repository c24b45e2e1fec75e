"""A person stops a run: what is kept, what every call is told, what the model is told."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import anyio
import pytest

from holdfast import Agent, Run, RunResult, tool
from holdfast.errors import RunFailed
from holdfast.hooks import Context
from holdfast.kernel.events import Retrying, ToolFinished, ToolStarted
from holdfast.kernel.messages import marker_kind, user_message
from holdfast.kernel.model import ArgumentsDelta, CallEnded, CallStarted, Finished
from holdfast.messages import Message, Reasoning, Text, ToolCall, ToolResult, dump, load
from holdfast.options import Policy, Retry, Wording
from holdfast.testing import call, call_raw, cut, fail, finish, hang, pause, say, think, usage
from tests.kernel.runs import (
    act,
    asks_client,
    check_events,
    events_of,
    finished,
    held_up_after_its_answer,
    kinds,
    later,
    look,
    now,
    only,
    outcomes,
    requests_of,
    results_in,
    scripted,
    stumble,
    texts,
)
from tests.kernel.toolkit import assert_valid

DURING_ANSWER = Wording().interrupted_answer
DURING_TOOLS = Wording().interrupted_tools


async def interrupted(agent: Agent, seconds: float = 5.0, **given: Any) -> RunResult:
    """The result of a run that is stopped after so many seconds."""
    run = agent.run("?", **given)
    later(seconds, run.interrupt)
    result = await run
    assert result.reason == "interrupted"
    assert result.failure is None
    return result


def markers(messages: tuple[Message, ...]) -> list[str]:
    assert all(m.visibility == "model" for m in messages if m.kind == "marker")
    return texts(messages, "marker")


# --- While the model answers --------------------------------------------------------------------


async def test_before_the_start_it_leaves_the_prompt_and_a_marker() -> None:
    agent = scripted(["Hi"])
    run = agent.run("?")
    run.interrupt()
    result = await run
    assert result.reason == "interrupted"
    assert kinds(result.history) == ["prompt", "marker"]
    assert markers(result.history) == [DURING_ANSWER]
    assert requests_of(agent) == []


async def test_before_the_first_delta_it_leaves_no_answer() -> None:
    result = await interrupted(scripted([[pause(10), "Hi"]]))
    assert kinds(result.history) == ["prompt", "marker"]
    assert markers(result.history) == [DURING_ANSWER]
    assert now() == 5.0


async def test_before_the_first_delta_after_tools_the_model_was_answering() -> None:
    result = await interrupted(scripted([call("act"), hang()], act))
    assert kinds(result.history) == ["prompt", "answer", "results", "marker"]
    assert markers(result.history) == [DURING_ANSWER]


async def test_in_the_middle_of_text_the_text_is_kept() -> None:
    result = await interrupted(scripted([[say("Once upon", chunks=3), hang()]]))
    partial = result.history[1]
    assert partial.parts == (Text("Once upon"),)
    assert (partial.finish, partial.visibility) == ("interrupted", "both")
    assert partial.model == "scripted:model"
    assert markers(result.history) == [DURING_ANSWER]
    assert result.text == "Once upon"


async def test_in_the_middle_of_reasoning_the_reasoning_is_kept() -> None:
    turn = [think("First", signature="s"), think("then")[:1], hang()]  # type: ignore[index]
    result = await interrupted(scripted([turn]))
    one, two = result.history[1].parts
    assert isinstance(one, Reasoning)
    assert isinstance(two, Reasoning)
    assert (one.text, one.signature) == ("First", "s")
    assert (two.text, two.signature) == ("then", None)


def assert_half_written(message: Message, arguments: str) -> None:
    """The message shows people a call that was being written, and why it was not run."""
    assert (message.kind, message.visibility, message.finish) == ("answer", "user", "interrupted")
    asked, made = message.parts
    assert isinstance(asked, ToolCall)
    assert isinstance(made, ToolResult)
    assert (asked.tool, asked.arguments) == ("act", arguments)
    assert asked.complaint
    assert (made.call_id, made.outcome) == (asked.id, "interrupted")
    assert made.text == "Not run: the call was still being written when the answer ended."


async def test_in_the_middle_of_arguments_the_call_is_kept_for_people() -> None:
    turn = [say("I will"), call_raw("act", '{"what": "ha', ended=False), hang()]
    agent = scripted([turn, "Again."], act)
    run = agent.run("?")
    later(5, run.interrupt)
    events = await events_of(run)
    assert check_events(events).reason == "interrupted"
    result = await run
    assert kinds(result.history) == ["prompt", "answer", "answer", "marker"]
    assert result.history[1].parts == (Text("I will"),)
    assert_half_written(result.history[2], '{"what": "ha')
    assert markers(result.history) == [DURING_ANSWER]
    assert (result.text, result.summary.steps, result.summary.tool_calls) == ("I will", 1, 0)
    assert [event.result.outcome for event in only(ToolFinished, events)] == ["interrupted"]

    await agent.run("And?", history=load(dump(result.history)))
    sent = requests_of(agent)[-1].messages
    assert not any(message.calls or message.results for message in sent)
    assert [message.text for message in sent] == ["?", "I will", DURING_ANSWER, "And?"]


async def test_a_half_written_call_may_be_all_that_is_kept() -> None:
    turn = [call_raw("act", '{"what": "ha', ended=False), hang()]
    result = await interrupted(scripted([call("act"), turn], act))
    assert kinds(result.history) == ["prompt", "answer", "results", "answer", "marker"]
    assert_half_written(result.history[3], '{"what": "ha')
    assert markers(result.history) == [DURING_ANSWER]
    assert result.text == ""


async def test_the_text_of_a_run_with_only_a_half_written_call_is_not_that_of_an_earlier_run() -> (
    None
):
    agent = scripted(["Hello.", [call_raw("act", "{", ended=False), hang()]], act)
    first = await agent.run("?")
    run = agent.run("And?", history=first.history)
    later(5, run.interrupt)
    result = await run
    assert kinds(result.new) == ["prompt", "answer", "marker"]
    assert result.text == ""


async def test_a_half_written_call_stands_between_complete_ones_and_their_results() -> None:
    turn = [call("act", what="a"), call_raw("act", "{", ended=False), hang()]
    result = await interrupted(scripted([turn], act))
    assert kinds(result.history) == ["prompt", "answer", "answer", "results", "marker"]
    assert_half_written(result.history[2], "{")
    assert_valid(result.history)


async def test_the_id_of_a_half_written_call_is_not_used_again() -> None:
    half: list[Any] = [CallStarted("same", "act"), ArgumentsDelta("same", "{"), hang()]
    again: list[Any] = [CallStarted("same", "act"), ArgumentsDelta("same", "{}")]
    agent = scripted([half, [*again, CallEnded("same"), Finished("tool_calls")], "Done."], act)
    first = await interrupted(agent)
    second = await agent.run("And?", history=first.history)
    ids = [asked.id for message in second.history for asked in message.calls]
    assert len(ids) == len(set(ids)) == 2


async def test_a_half_written_call_of_an_answer_that_failed_is_kept_for_people_too() -> None:
    turn = [say("I will"), call_raw("act", '{"what": "ha', ended=False), cut()]
    agent = scripted([turn], act, policy=Policy(retry=Retry(attempts=1)))
    with pytest.raises(RunFailed) as caught:
        await agent.run("?")
    kept = caught.value.result.history[-1]
    assert (kept.text, kept.visibility, kept.finish) == ("I will", "user", "error")
    assert [asked.arguments for asked in kept.calls] == ['{"what": "ha']
    assert [made.outcome for made in kept.results] == ["interrupted"]


async def test_complete_calls_are_kept_and_told_that_they_were_interrupted() -> None:
    turn = [call("act", what="a"), call("nothing_known"), call("asks_client", n=1), hang()]
    run = scripted([turn], act, asks_client).run("?")
    later(5, run.interrupt)
    events = await events_of(run)
    assert check_events(events).reason == "interrupted"
    assert kinds(run.history) == ["prompt", "answer", "results", "marker"]
    assert set(outcomes(run.history).values()) == {"interrupted"}
    assert list(outcomes(run.history)) == ["call_1", "call_2", "call_3"]
    assert finished(events) == {"call_1": 1, "call_2": 1, "call_3": 1}
    assert only(ToolStarted, events) == []


async def test_results_of_calls_that_finished_during_the_stream_are_kept() -> None:
    turn = [call("look", what="a"), call("look", what="b", seconds=100), call("act"), hang()]
    run = scripted([turn], look, act).run("?")
    later(5, run.interrupt)
    events = await events_of(run)
    assert results_in(run.history)["call_1"] == ("ok", "saw a")
    assert outcomes(run.history) == {
        "call_1": "ok",
        "call_2": "interrupted",
        "call_3": "interrupted",
    }
    assert finished(events) == {"call_1": 1, "call_2": 1, "call_3": 1}
    assert markers(run.history) == [DURING_ANSWER]
    assert now() == 5.0


async def test_an_answer_that_was_complete_is_kept_complete() -> None:
    agent = scripted([[say("All of it."), Finished("stop"), hang()]])
    result = await interrupted(agent, 1)
    assert result.history[1].finish == "stop"
    assert kinds(result.history) == ["prompt", "answer"]


async def test_a_complete_answer_with_running_calls_stops_them_and_says_so_once() -> None:
    turn = [call("look", seconds=100), call("look"), call("act"), Finished("tool_calls"), hang()]
    run = scripted([turn], look, act).run("?")
    later(1, run.interrupt)
    events = await events_of(run)
    assert check_events(events).reason == "interrupted"
    assert outcomes(run.history) == {
        "call_1": "interrupted",
        "call_2": "ok",
        "call_3": "interrupted",
    }
    assert finished(events) == {"call_1": 1, "call_2": 1, "call_3": 1}
    assert now() < 100


async def test_a_slow_reader_does_not_keep_the_calls_of_a_complete_answer_running() -> None:
    turn = [call("look", seconds=100), pause(1), say("So.")]
    run = await held_up_after_its_answer(
        lambda policy: scripted([turn, "Done."], look, policy=policy)
    )
    began = now()
    run.interrupt()
    events = await events_of(run)
    assert check_events(events).reason == "interrupted"
    assert outcomes(run.history) == {"call_1": "interrupted"}
    assert finished(events) == {"call_1": 1}
    assert markers(run.history) == [DURING_TOOLS]
    assert now() == began


async def test_usage_of_the_steps_before_is_counted() -> None:
    agent = scripted([[call("look"), usage(input=10, output=2)], [say("Half"), hang()]], look)
    result = await interrupted(agent)
    assert result.summary.usage.input == 10
    assert result.summary.steps == 2
    assert result.history[-2].usage is None


# --- While tools run ----------------------------------------------------------------------------


async def test_running_calls_are_cancelled_and_finished_ones_kept() -> None:
    calls = [
        call("look", what="a"),
        call("look", what="b", seconds=100),
        call("act", what="c", seconds=100),
        call("act", what="d"),
    ]
    run = scripted([calls], look, act).run("?")
    later(5, run.interrupt)
    events = await events_of(run)
    found = results_in(run.history)
    assert found["call_1"] == ("ok", "saw a")
    assert [outcome for outcome, _ in found.values()] == ["ok", *["interrupted"] * 3]
    assert finished(events) == dict.fromkeys(found, 1)
    assert kinds(run.history) == ["prompt", "answer", "results", "marker"]
    assert markers(run.history) == [DURING_TOOLS]
    assert now() == 5.0


async def test_the_model_is_told_which_calls_may_have_had_an_effect() -> None:
    calls = [call("act", what="a", seconds=100), call("act", what="b")]
    result = await interrupted(scripted([calls], act))
    found = results_in(result.history)
    assert "It may have taken effect" in found["call_1"][1]
    assert "It may have taken effect" not in found["call_2"][1]


async def test_a_call_that_wants_to_finish_when_steered_is_cancelled_all_the_same() -> None:
    @tool(on_steer="finish")
    async def important() -> str:
        """Finish, whoever speaks."""
        await anyio.sleep(100)
        return "done"

    result = await interrupted(scripted([call("important")], important))
    assert outcomes(result.history) == {"call_1": "interrupted"}


async def test_a_tool_may_stop_its_own_run() -> None:
    held: list[Run] = []

    @tool
    async def enough() -> str:
        """Stop the run."""
        held[0].interrupt()
        await anyio.sleep(1)
        return "never"

    run = scripted([[call("enough"), call("act")]], enough, act).run("?")
    held.append(run)
    result = await run
    assert result.reason == "interrupted"
    assert outcomes(result.history) == {"call_1": "interrupted", "call_2": "interrupted"}


async def test_results_from_outside_are_kept_when_the_run_is_stopped_before_it_begins() -> None:
    agent = scripted([[call("asks_client", n=1), call("asks_client", n=2)]], asks_client)
    waiting = await agent.run("?")
    run = agent.run(history=waiting.history, resolve={"call_1": "42"})
    run.interrupt()
    events = await events_of(run)
    assert results_in(run.history)["call_1"] == ("ok", "42")
    assert outcomes(run.history)["call_2"] == "interrupted"
    assert finished(events) == {"call_1": 1, "call_2": 1}


async def test_a_turn_that_waits_for_the_outside_can_be_given_up() -> None:
    agent = scripted([call("asks_client", n=1), "Never mind."], asks_client)
    waiting = await agent.run("?")
    run = agent.run(history=waiting.history)
    run.interrupt()
    stopped = await run
    assert outcomes(stopped.history) == {"call_1": "interrupted"}
    assert (await agent.run("Well?", history=stopped.history)).text == "Never mind."


# --- While something else is waited for ---------------------------------------------------------


async def test_during_the_wait_for_another_attempt_it_stops_at_once() -> None:
    agent = scripted([[say("Half"), fail(status=503, retry_after=60)], "Hi"])
    run = agent.run("?")
    later(5, run.interrupt)
    events = await events_of(run)
    assert len(only(Retrying, events)) == 1
    assert check_events(events).reason == "interrupted"
    assert kinds(run.history) == ["prompt", "marker"]
    assert markers(run.history) == [DURING_ANSWER]
    assert now() == 5.0


async def test_during_the_wait_for_another_attempt_after_tools_the_model_was_answering() -> None:
    agent = scripted([call("act"), fail(status=503, retry_after=60), "Hi"], act)
    result = await interrupted(agent)
    assert markers(result.history) == [DURING_ANSWER]


async def test_while_the_guard_is_asked_it_stops_and_leaves_no_marker() -> None:
    cancelled = []

    async def guard(_context: Context, _: object) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.append(now())

    result = await interrupted(scripted(["Done."], guard=guard))
    assert kinds(result.history) == ["prompt", "answer"]
    assert cancelled == [5.0]


async def test_while_the_history_is_summarized_it_stops_and_changes_nothing() -> None:
    agent = scripted(["One.", [say("## Goal"), hang()], "Two."])
    first = await agent.run("1")
    run = agent.run("2", history=first.history, compact=True)
    later(5, run.interrupt)
    events = await events_of(run)
    assert check_events(events, first.history).reason == "interrupted"
    assert "checkpoint" not in kinds(run.history)
    assert now() == 5.0
    result = await run
    told = [message.text for message in (*result.history, *result.undelivered)]
    assert told.count("2") == 1


async def test_during_the_wait_for_another_summary_it_stops_at_once() -> None:
    agent = scripted(["One.", fail(status=503, retry_after=60)])
    first = await agent.run("1")
    result = await interrupted(agent, history=first.history, compact=True)
    assert "checkpoint" not in kinds(result.history)
    assert now() == 5.0


async def test_after_the_final_answer_there_is_no_marker() -> None:
    run = await held_up_after_its_answer(
        lambda policy: scripted([[pause(1), say("So.")]], policy=policy)
    )
    run.interrupt()
    events = await events_of(run)
    assert check_events(events).reason == "interrupted"
    assert kinds(run.history) == ["prompt", "answer"]
    assert run.history[1].finish == "stop"


@pytest.mark.parametrize("hook", ["project", "active", "guard", "gate"])
async def test_a_hook_may_stop_its_own_run(hook: str) -> None:
    held: list[Run] = []

    def stop(*given: object) -> object:
        held[0].interrupt()
        return {"project": given[-1], "active": ["act"]}.get(hook)

    agent = scripted([call("act"), "Done."], act, **{hook: stop})
    held.append(agent.run("?"))
    result = await held[0]
    assert result.reason == "interrupted"


async def test_once_the_run_has_ended_it_does_nothing() -> None:
    run = scripted(["Hi"]).run("?")
    result = await run
    run.interrupt()
    assert await run is result


async def test_twice_is_once() -> None:
    run = scripted([[say("Half"), hang()]]).run("?")
    later(5, run.interrupt)
    later(5, run.interrupt)
    events = await events_of(run)
    run.interrupt()
    assert check_events(events).reason == "interrupted"
    assert kinds(run.history) == ["prompt", "answer", "marker"]


# --- The marker ---------------------------------------------------------------------------------


SCRIPTS: Final[Mapping[str, list[Any]]] = {
    "talking": [[say("Half"), hang()], "I see."],
    "working": [call("act", seconds=100), "I see."],
}


async def sent_after_interrupt(turns: list[Any], wording: Wording) -> tuple[Message, ...]:
    """What the model receives in the turn after an interrupted one."""
    agent = scripted(turns, act, policy=Policy(wording=wording))
    stopped = await interrupted(agent)
    await agent.run("Go on", history=stopped.history)
    return requests_of(agent)[-1].messages


async def test_requests_have_markers_in_the_words_of_the_policy() -> None:
    words = Wording(interrupted_answer="[stopped you]", interrupted_tools="[stopped them]")
    talking = await sent_after_interrupt(SCRIPTS["talking"], words)
    working = await sent_after_interrupt(SCRIPTS["working"], words)
    assert markers(talking) == ["[stopped you]"]
    assert markers(working) == ["[stopped them]"]


async def test_requests_have_no_marker_that_is_switched_off() -> None:
    words = Wording(interrupted_answer="", interrupted_tools="")
    talking = await sent_after_interrupt(SCRIPTS["talking"], words)
    working = await sent_after_interrupt(SCRIPTS["working"], words)
    assert kinds(talking) == ["prompt", "answer", "prompt"]
    assert kinds(working) == ["prompt", "answer", "results", "prompt"]


async def test_a_history_names_the_kind_of_a_marker_whatever_the_wording() -> None:
    words = Policy(wording=Wording(interrupted_answer="[stopped you]", interrupted_tools=""))
    talking = await interrupted(scripted([hang()], policy=words))
    working = await interrupted(scripted([call("act", seconds=100)], act, policy=words))
    assert [marker_kind(m) for m in talking.history] == [None, "interrupted_answer"]
    assert [marker_kind(m) for m in working.history] == [None, None, None, "interrupted_tools"]


async def test_a_marker_with_a_text_of_its_own_is_sent_as_it_is() -> None:
    """Markers of histories that were stored with the wording of the time."""
    own = Message("user", (Text("[The person left.]"),), "marker", "model")
    history = (user_message("?"), own)
    for words in (Wording(), Wording(interrupted_answer="", interrupted_tools="")):
        agent = scripted(["I see."], policy=Policy(wording=words))
        await agent.run("Go on", history=history)
        assert requests_of(agent)[-1].messages[:2] == history


async def test_a_turn_that_is_stopped_after_a_tool_failed_has_one_marker() -> None:
    agent = scripted([call("stumble"), [say("Half"), hang()]], stumble)
    result = await interrupted(agent)
    assert markers(result.history) == [DURING_ANSWER]


# --- Going on -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "turn",
    [
        pytest.param([hang()], id="nothing"),
        pytest.param([say("Half"), hang()], id="text"),
        pytest.param([think("Hm"), hang()], id="reasoning"),
        pytest.param([call("act"), call("look"), hang()], id="calls"),
        pytest.param([call("look"), call("act", seconds=100)], id="tools"),
        pytest.param([say("Long"), finish("length")], id="length"),
    ],
)
async def test_an_interrupted_conversation_goes_on(turn: list[object]) -> None:
    agent = scripted([turn, *[hang()] * ("Long" in repr(turn)), "Hello again."], act, look)  # type: ignore[list-item]
    stopped = await interrupted(agent)

    result = await agent.run("Go on", history=stopped.history)

    assert (result.reason, result.text) == ("stop", "Hello again.")
    sent = requests_of(agent)[-1].messages
    assert sent[-1] == user_message("Go on")
    assert sent[-2].kind == "marker"
    answered = [r.call_id for m in sent for r in m.results]
    assert answered == [c.id for m in sent for c in m.calls]


async def test_an_interrupted_conversation_without_a_prompt_asks_the_model_again() -> None:
    agent = scripted([call("act", seconds=100), "I see."], act)
    stopped = await interrupted(agent)
    result = await agent.run(history=stopped.history)
    assert result.text == "I see."


async def test_every_call_that_started_has_an_end_also_when_its_clean_up_takes_long() -> None:
    @tool(effect="pure")
    async def tidy() -> str:
        """Leave nothing behind."""
        try:
            await anyio.sleep_forever()
        finally:
            await asyncio.sleep(2)
        return ""

    run = scripted([[call("tidy"), hang()]], tidy).run("?")
    later(5, run.interrupt)
    events = await events_of(run)
    check_events(events)
    (done,) = only(ToolFinished, events)
    assert (done.result.outcome, done.seconds) == ("interrupted", 7.0)
    assert now() == 7.0
