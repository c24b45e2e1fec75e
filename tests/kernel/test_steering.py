"""What people say to a run while it goes on: steering, and follow-ups for when it is done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest

from holdfast import Agent, Limits, Run, tool
from holdfast.errors import RunOver
from holdfast.hooks import Context, Inject
from holdfast.kernel.events import (
    Delivered,
    MessageCommitted,
    Retrying,
    StepStarted,
    ToolFinished,
    ToolStarted,
)
from holdfast.kernel.messages import user_message
from holdfast.kernel.summary_checkpoint import SUMMARY_SECTIONS
from holdfast.messages import Message, Text
from holdfast.testing import call, fail, finish, hang, pause, say
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
    outcome,
    outcomes,
    requests_of,
    results_in,
    scripted,
    texts,
)

SUMMARY = "\n".join(f"## {section}\n-" for section in SUMMARY_SECTIONS)


def steered(agent: Agent, seconds: float, text: str = "Wait!", **given: Any) -> Run:
    run = agent.run("?", **given)
    later(seconds, lambda: run.steer(text))
    return run


def prompts(run: Run) -> list[str]:
    return texts(run.history, "prompt")


def sent_last(agent: Agent) -> Message:
    return requests_of(agent)[-1].messages[-1]


# --- While the model answers --------------------------------------------------------------------


async def test_before_the_start_it_follows_the_prompt() -> None:
    agent = scripted(["Hi"])
    run = agent.run("?")
    run.steer("And?")
    run.steer("Well?")
    events = await events_of(run)
    assert prompts(run) == ["?", "And?", "Well?"]
    assert len(requests_of(agent)) == 1
    (delivered,) = only(Delivered, events)
    assert delivered.why == "steering"
    assert delivered.messages == (user_message("And?"), user_message("Well?"))


async def test_during_the_answer_it_does_not_stop_the_model() -> None:
    agent = scripted([[say("Once"), pause(10), say(" upon a time")], "I see."])
    run = steered(agent, 5)
    result = await run
    assert texts(result.history, "answer") == ["Once upon a time", "I see."]
    assert sent_last(agent) == user_message("Wait!")
    assert kinds(result.history) == ["prompt", "answer", "prompt", "answer"]


async def test_it_is_delivered_before_it_is_committed() -> None:
    agent = scripted([[say("Hm"), pause(10)], "I see."])
    events = await events_of(steered(agent, 5))
    (delivered,) = only(Delivered, events)
    following = events[events.index(delivered) + 1]
    assert isinstance(following, MessageCommitted)
    assert delivered.messages == (following.message,)


async def test_several_messages_are_delivered_together_in_order() -> None:
    agent = scripted([[say("Hm"), pause(10)], "I see."])
    run = agent.run("?")
    for seconds in (1, 2, 3):
        later(seconds, lambda text=str(seconds): run.steer(text))  # type: ignore[misc]
    await run
    assert prompts(run) == ["?", "1", "2", "3"]
    assert len(requests_of(agent)) == 2


async def test_it_may_have_any_form_that_a_prompt_has() -> None:
    agent = scripted([[say("Hm"), pause(10)], "I see."])
    run = agent.run("?")
    later(1, lambda: run.steer([Text("a"), Text("b")]))
    await run
    assert run.history[2].parts == (Text("a"), Text("b"))


async def test_during_the_answer_calls_that_did_not_start_are_skipped() -> None:
    agent = scripted([[call("act", what="a"), pause(10), call("act", what="b")], "I see."], act)
    run = steered(agent, 5)
    events = await events_of(run)
    assert check_events(events).reason == "stop"
    assert outcomes(run.history) == {"call_1": "skipped", "call_2": "skipped"}
    assert finished(events) == {"call_1": 1, "call_2": 1}
    assert only(ToolStarted, events) == []
    assert kinds(run.history) == ["prompt", "answer", "results", "prompt", "answer"]
    assert sent_last(agent) == user_message("Wait!")
    assert "new message" in results_in(run.history)["call_1"][1]


async def test_during_the_answer_results_that_are_there_are_kept() -> None:
    turn = [call("look", what="a"), call("look", seconds=100), pause(10), call("act")]
    run = steered(scripted([turn, "I see."], look, act), 5)
    events = await events_of(run)
    assert outcomes(run.history) == {
        "call_1": "ok",
        "call_2": "interrupted",  # pure calls may be cancelled by what is said
        "call_3": "skipped",
    }
    assert finished(events) == {"call_1": 1, "call_2": 1, "call_3": 1}
    assert now() == 10.0


async def test_whoever_speaks_while_the_run_waits_for_a_slow_reader_is_heard() -> None:
    turn = [call("look", seconds=100), pause(1), say("So.")]
    run = await held_up_after_its_answer(
        lambda policy: scripted([turn, "I see."], look, policy=policy)
    )
    began = now()
    run.steer("Wait!")
    events = await events_of(run)
    assert outcomes(run.history) == {"call_1": "interrupted"}
    assert finished(events) == {"call_1": 1}
    assert now() == began


async def test_a_call_that_was_skipped_while_the_run_waited_for_its_reader_is_never_run() -> None:
    done: list[str] = []

    @tool
    async def note(what: str) -> str:
        """Note it down."""
        done.append(what)
        await anyio.sleep(10)
        return what

    turn = [call("note", what="a"), call("note", what="b"), pause(1), say("So.")]
    run = await held_up_after_its_answer(
        lambda policy: scripted([turn, "I see."], note, policy=policy, eager="all")
    )
    done.clear()
    run.steer("Wait!")
    events = await events_of(run)
    assert outcomes(run.history) == {"call_1": "ok", "call_2": "skipped"}
    assert finished(events) == {"call_1": 1, "call_2": 1}
    assert done == []


async def test_an_answer_cut_by_length_is_followed_by_what_was_said_not_by_recovery() -> None:
    agent = scripted([[say("Once"), pause(10), finish("length")], "I see."])
    run = steered(agent, 5)
    await run
    assert kinds(run.history) == ["prompt", "answer", "prompt", "answer"]


# --- While tools run ----------------------------------------------------------------------------


async def test_during_tools_the_rest_is_skipped_and_both_have_end_events() -> None:
    agent = scripted([[call("act", what="a", seconds=10), call("act", what="b")], "I see."], act)
    run = steered(agent, 5)
    events = await events_of(run)
    assert check_events(events).reason == "stop"
    assert results_in(run.history)["call_1"] == ("ok", "did a")
    assert outcomes(run.history)["call_2"] == "skipped"
    assert finished(events) == {"call_1": 1, "call_2": 1}
    skipped, done = only(ToolFinished, events)
    assert (skipped.result.call_id, done.result.call_id) == ("call_2", "call_1")
    assert [part.call_id for part in run.history[2].results] == ["call_1", "call_2"]
    assert now() == 10.0


async def test_during_tools_each_call_does_what_it_says_it_does() -> None:
    @tool(effect="pure", on_steer="finish")
    async def patient() -> str:
        """Finish, whoever speaks."""
        await anyio.sleep(10)
        return "done"

    @tool(parallel=True, on_steer="cancel")
    async def hasty() -> str:
        """Stop as soon as somebody speaks."""
        await anyio.sleep(10)
        return "done"

    run = steered(scripted([[call("patient"), call("hasty")], "I see."], patient, hasty), 5)
    await run
    assert outcomes(run.history) == {"call_1": "ok", "call_2": "interrupted"}
    assert "new message" in results_in(run.history)["call_2"][1]


async def test_a_second_message_during_tools_is_delivered_with_the_first() -> None:
    agent = scripted([call("act", seconds=10), "I see."], act)
    run = steered(agent, 5, "One")
    later(6, lambda: run.steer("Two"))
    await run
    assert prompts(run) == ["?", "One", "Two"]


async def test_a_tool_may_speak_to_its_own_run() -> None:
    held: list[Run] = []

    @tool
    async def remind() -> str:
        """Say something to the model."""
        held[0].steer("Remember the milk.")
        return "said"

    run = scripted([[call("remind"), call("act")], "Milk."], remind, act).run("?")
    held.append(run)
    await run
    assert outcomes(run.history) == {"call_1": "ok", "call_2": "skipped"}
    assert prompts(run) == ["?", "Remember the milk."]


# --- While something else is waited for ---------------------------------------------------------


async def test_during_the_wait_for_another_attempt_it_is_sent_at_once() -> None:
    agent = scripted([fail(status=503, retry_after=60), "I see."])
    run = steered(agent, 5)
    events = await events_of(run)
    assert len(only(Retrying, events)) == 1
    assert sent_last(agent) == user_message("Wait!")
    assert check_events(events).reason == "stop"
    assert len(only(StepStarted, events)) == 2
    assert now() == 5.0


async def test_while_the_history_is_summarized_it_waits_for_the_summary() -> None:
    agent = scripted(["x" * 4_000, [pause(10), SUMMARY], "Two."])
    first = await agent.run("1")
    run = agent.run("2", history=first.history, compact=True)
    later(5, lambda: run.steer("3"))
    await run
    assert "checkpoint" in kinds(run.history)
    assert [m.text for m in requests_of(agent)[-1].messages][-2:] == ["2", "3"]


async def test_a_follow_up_to_a_requested_summary_is_delivered_behind_it() -> None:
    agent = scripted(["x" * 4_000, SUMMARY, "Two."])
    first = await agent.run("1")
    run = agent.run(history=first.history, compact=True)
    run.follow_up("2")
    result = await run
    assert (result.text, result.undelivered) == ("Two.", ())
    assert kinds(result.new) == ["checkpoint", "note", "prompt", "answer"]


async def test_what_is_said_does_not_shorten_the_wait_for_another_summary() -> None:
    """Otherwise a provider that asks for a pause would be asked again and again at once."""
    trouble = [fail(status=429, retry_after=60)] * 3
    agent = scripted(["x" * 4_000, *trouble, SUMMARY, "Two."])
    first = await agent.run("1")
    run = agent.run("2", history=first.history, compact=True)
    later(5, lambda: run.steer("3"))
    assert (await run).text == "Two."
    assert now() == 180.0


async def test_while_the_guard_is_asked_it_is_delivered_and_the_guard_asked_again() -> None:
    asked = []

    async def guard(_context: Context, stopping: Any) -> None:
        asked.append(stopping.message.text)
        await anyio.sleep(10)

    agent = scripted(["One.", "Two."], guard=guard)
    run = steered(agent, 5)
    result = await run
    assert asked == ["One.", "Two."]
    assert (result.reason, prompts(run)) == ("stop", ["?", "Wait!"])


async def test_what_is_said_while_the_guard_is_asked_is_not_lost_by_its_veto() -> None:
    verdicts = iter([Inject("Not yet."), None])

    async def guard(_context: Context, _: object) -> Inject | None:
        await anyio.sleep(10)
        return next(verdicts)

    agent = scripted(["One.", "Two."], guard=guard)
    run = steered(agent, 5)
    await run
    assert kinds(run.history) == ["prompt", "answer", "injected", "prompt", "answer"]
    assert [m.text for m in requests_of(agent)[-1].messages] == ["?", "One.", "Not yet.", "Wait!"]


async def test_a_prompt_for_a_history_with_open_calls_skips_them() -> None:
    agent = scripted([[call("act"), call("asks_client", n=1)], "I see."], act, asks_client)
    waiting = await agent.run("?")
    assert waiting.reason == "requires_action"
    run = agent.run("Never mind.", history=waiting.history)
    events = await events_of(run)
    check_events(events, waiting.history)
    assert outcomes(run.history) == {"call_1": "ok", "call_2": "skipped"}
    assert finished(events) == {"call_2": 1}
    assert kinds(run.history)[-3:] == ["results", "prompt", "answer"]


# --- Never lost ---------------------------------------------------------------------------------


def hanging() -> Agent:
    return scripted([hang()])


ENDS: dict[str, Callable[[], Agent]] = {
    "error": lambda: scripted([[pause(10), fail(status=401)]]),
    "escalation": lambda: scripted([[pause(10), fail(ValueError())]]),
    "requires_action": lambda: scripted([[call("asks_client", n=1), pause(10)]], asks_client),
    "limit": lambda: scripted(
        [[call("look"), pause(10)]], look, default=call("look"), limits=Limits(steps=1)
    ),
    "stop": lambda: scripted([[say("Hi"), pause(10)], "I see.", "And that."]),
}


@pytest.mark.parametrize("end", ENDS)
async def test_what_was_said_is_in_the_history_or_undelivered(end: str) -> None:
    run = ENDS[end]().run("?")
    later(5, lambda: run.steer("Wait!"))
    later(5, lambda: run.follow_up("Then?"))
    result = await outcome(run)
    told = [message.text for message in (*result.history, *result.undelivered)]
    assert (told.count("Wait!"), told.count("Then?")) == (1, 1)


async def test_what_an_interrupted_run_did_not_deliver_is_handed_back() -> None:
    run = hanging().run("?")
    later(5, lambda: run.steer("Wait!"))
    later(5, lambda: run.follow_up("Then?"))
    later(6, run.interrupt)
    result = await run
    assert [message.text for message in result.undelivered] == ["Wait!", "Then?"]
    assert prompts(run) == ["?"]


async def test_what_a_run_that_waits_for_the_outside_did_not_deliver_is_handed_back() -> None:
    run = scripted([call("asks_client", n=1)], asks_client).run("?")
    run.follow_up("Then?")
    result = await run
    assert result.reason == "requires_action"
    assert [message.text for message in result.undelivered] == ["Then?"]


@pytest.mark.parametrize("say_it", ["steer", "follow_up"])
async def test_nothing_is_taken_after_the_end(say_it: str) -> None:
    run = scripted(["Hi"]).run("?")
    await run
    with pytest.raises(RunOver, match=r"history=result\.history"):
        getattr(run, say_it)("More")


@pytest.mark.parametrize("say_it", ["steer", "follow_up"])
async def test_nothing_is_taken_after_the_last_event(say_it: str) -> None:
    run = scripted(["Hi"]).run("?")
    await events_of(run)
    with pytest.raises(RunOver):
        getattr(run, say_it)("More")


@pytest.mark.parametrize("say_it", ["steer", "follow_up"])
async def test_nothing_is_taken_by_a_closed_run(say_it: str) -> None:
    run = hanging().run("?")
    async with run:
        await anyio.sleep(1)
    with pytest.raises(RunOver):
        getattr(run, say_it)("More")


# --- Follow-ups ---------------------------------------------------------------------------------


async def test_a_follow_up_is_delivered_when_the_run_would_stop() -> None:
    agent = scripted([call("act"), "Done.", "Also done."], act)
    run = agent.run("?")
    run.follow_up("And that?")
    events = await events_of(run)
    assert kinds(run.history) == ["prompt", "answer", "results", "answer", "prompt", "answer"]
    (delivered,) = only(Delivered, events)
    assert (delivered.why, delivered.messages) == ("follow_up", (user_message("And that?"),))
    assert check_events(events).reason == "stop"


async def test_a_follow_up_is_delivered_after_a_tool_that_ends_the_turn() -> None:
    @tool(stop_after=True)
    async def hand_in() -> str:
        """Hand the work in."""
        return "thanks"

    agent = scripted([call("hand_in"), "Also done."], hand_in)
    run = agent.run("?")
    run.follow_up("And that?")
    result = await run
    assert result.reason == "stop"
    assert kinds(result.history) == ["prompt", "answer", "results", "prompt", "answer"]


async def test_several_follow_ups_are_delivered_together() -> None:
    agent = scripted(["Done.", "Also done."])
    run = agent.run("?")
    run.follow_up("1")
    run.follow_up("2")
    await run
    assert prompts(run) == ["?", "1", "2"]
    assert len(requests_of(agent)) == 2


async def test_a_follow_up_to_a_follow_up_is_delivered_too() -> None:
    agent = scripted(["One.", [pause(10), "Two."], "Three."])
    run = agent.run("?")
    run.follow_up("1")
    later(5, lambda: run.follow_up("2"))
    result = await run
    assert (result.text, prompts(run)) == ("Three.", ["?", "1", "2"])


async def test_a_follow_up_goes_on_after_the_limit_of_steps() -> None:
    agent = scripted([call("look"), "Done."], look, limits=Limits(steps=1))
    run = agent.run("?")
    run.follow_up("Go on")
    result = await run
    assert (result.reason, result.text) == ("stop", "Done.")
    assert kinds(result.history) == ["prompt", "answer", "results", "note", "prompt", "answer"]


async def test_steering_comes_before_a_follow_up() -> None:
    agent = scripted([[say("Hm"), pause(10)], "I see.", "Done."])
    run = agent.run("?")
    run.follow_up("Then?")
    later(5, lambda: run.steer("Wait!"))
    await run
    assert prompts(run) == ["?", "Wait!", "Then?"]


async def test_the_guard_is_asked_only_when_no_follow_up_is_left() -> None:
    asked = []

    def guard(_context: Context, stopping: Any) -> None:
        asked.append(stopping.message.text)

    agent = scripted(["One.", "Two."], guard=guard)
    run = agent.run("?")
    run.follow_up("And?")
    await run
    assert asked == ["Two."]


async def test_a_follow_up_that_comes_while_the_guard_is_asked_is_delivered() -> None:
    async def guard(_context: Context, _: object) -> None:
        await anyio.sleep(10)

    agent = scripted(["One.", "Two."], guard=guard)
    run = agent.run("?")
    later(5, lambda: run.follow_up("And?"))
    result = await run
    assert (result.text, prompts(run)) == ("Two.", ["?", "And?"])


async def test_a_follow_up_begins_a_turn_with_new_counters() -> None:
    agent = scripted([call("look"), "One.", call("look"), "Two."], look, limits=Limits(steps=2))
    run = agent.run("?")
    run.follow_up("And?")
    events = await events_of(run)
    assert [step.number for step in only(StepStarted, events)] == [1, 2, 1, 2]
    assert check_events(events).reason == "stop"
