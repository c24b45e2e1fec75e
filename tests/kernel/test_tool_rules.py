"""Rules about tools that concern the whole run: the end of a turn, exclusive calls, which tools are
active, and calls that start while their message is still being written."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from holdfast import Limits, Run, tool
from holdfast.hooks import Context, Inject, Stopping
from holdfast.kernel.events import Retrying, ToolFinished, ToolStarted
from holdfast.kernel.messages import user_message
from holdfast.messages import ToolResult
from holdfast.options import Policy, Retry
from holdfast.testing import call, call_raw, fail, pause, say
from tests.kernel.runs import (
    act,
    asks_client,
    check_events,
    events_of,
    finished,
    kinds,
    later,
    look,
    names,
    now,
    only,
    outcome,
    outcomes,
    requests_of,
    results_in,
    scripted,
    stumble,
    texts,
)

# --- Tools that end the turn --------------------------------------------------------------------


@tool(stop_after=True)
async def hand_in(good: bool = True) -> str:
    """Hand the work in."""
    if not good:
        raise RuntimeError("not good enough")
    return "thanks"


def is_final(result: ToolResult) -> bool:
    return "final" in result.text


@tool(stop_after=is_final)
async def submit(version: str) -> str:
    """Submit a version."""
    return f"got the {version} version"


async def test_the_success_of_a_stop_after_tool_ends_the_turn() -> None:
    agent = scripted([call("hand_in")], hand_in)
    result = await agent.run("?")
    assert (result.reason, kinds(result.history)) == (
        "stop_after_tool",
        ["prompt", "answer", "results"],
    )
    assert len(requests_of(agent)) == 1


async def test_its_failure_does_not_end_the_turn() -> None:
    agent = scripted([call("hand_in", good=False), "Hm."], hand_in)
    result = await agent.run("?")
    assert (result.reason, result.text) == ("stop", "Hm.")


async def test_invalid_arguments_of_it_do_not_end_the_turn() -> None:
    agent = scripted([call_raw("hand_in", '{"good": '), "Hm."], hand_in)
    assert (await agent.run("?")).reason == "stop"


async def test_whether_a_result_ends_the_turn_may_depend_on_it() -> None:
    agent = scripted([call("submit", version="first"), call("submit", version="final")], submit)
    result = await agent.run("?")
    assert (result.reason, result.summary.steps) == ("stop_after_tool", 2)


async def test_the_other_calls_of_the_message_are_run_too() -> None:
    calls = [call("hand_in"), call("act", what="it"), call("stumble")]
    agent = scripted([calls], hand_in, act, stumble)
    result = await agent.run("?")
    assert result.reason == "stop_after_tool"
    assert outcomes(result.history) == {"call_1": "ok", "call_2": "ok", "call_3": "failed"}


async def test_a_turn_that_a_tool_ended_stays_ended() -> None:
    agent = scripted([call("hand_in")], hand_in)
    first = await agent.run("?")
    again = await agent.run(history=first.history)
    assert (again.reason, again.new) == ("stop_after_tool", ())


async def test_a_new_prompt_goes_on_after_a_turn_that_a_tool_ended() -> None:
    agent = scripted([call("hand_in"), "Hello."], hand_in)
    first = await agent.run("?")
    assert (await agent.run("Hi", history=first.history)).text == "Hello."


async def test_what_is_said_meanwhile_comes_before_the_end_of_the_turn() -> None:
    @tool(stop_after=True)
    async def slow_hand_in() -> str:
        """Hand the work in."""
        await anyio.sleep(10)
        return "thanks"

    agent = scripted([call("slow_hand_in"), "I see."], slow_hand_in)
    run = agent.run("?")
    later(5, lambda: run.steer("Wait!"))
    result = await run
    assert (result.reason, result.text) == ("stop", "I see.")
    assert kinds(result.history) == ["prompt", "answer", "results", "prompt", "answer"]


async def test_steering_and_a_veto_after_a_stop_after_tool_both_reach_the_model() -> None:
    verdicts = iter([Inject("Check it again."), None])

    async def guard(_context: Context, _: Stopping) -> Inject | None:
        await anyio.sleep(10)
        return next(verdicts)

    agent = scripted([call("hand_in"), "Done."], hand_in, guard=guard)
    run = agent.run("?")
    later(5, lambda: run.steer("Wait!"))
    await run
    sent = requests_of(agent)[-1].messages
    assert [message.text for message in sent[-2:]] == ["Check it again.", "Wait!"]


async def test_it_counts_before_the_limit_of_steps() -> None:
    agent = scripted([call("hand_in")], hand_in, limits=Limits(steps=1))
    assert (await agent.run("?")).reason == "stop_after_tool"


# --- Exclusive tools ----------------------------------------------------------------------------


@tool(exclusive=True)
async def plan(text: str = "") -> str:
    """Propose a plan. Must be called alone."""
    return "agreed"


@tool(exclusive=True)
async def advise() -> str:
    """Ask for advice. Must be called alone."""
    return "do it"


async def test_an_exclusive_tool_is_run_when_it_is_alone() -> None:
    result = await scripted([[say("So:"), call("plan")], "Done."], plan).run("?")
    assert outcomes(result.history) == {"call_1": "ok"}


async def test_a_mixed_batch_runs_nothing_and_tells_each_call_what_to_do() -> None:
    run = scripted([[call("act"), call("plan"), call("act")], "Sorry."], act, plan).run("?")
    events = await events_of(run)
    check_events(events)
    found = results_in(run.history)
    assert [outcome for outcome, _ in found.values()] == ["refused"] * 3
    assert "must be the only call" in found["call_2"][1]
    assert "plan was called next to it" in found["call_1"][1]
    assert "plan was called next to it" in found["call_3"][1]
    assert only(ToolStarted, events) == []
    assert finished(events) == {"call_1": 1, "call_2": 1, "call_3": 1}


async def test_two_exclusive_calls_are_both_told_to_come_alone() -> None:
    result = await scripted([[call("plan"), call("advise")], "Sorry."], plan, advise).run("?")
    found = results_in(result.history)
    assert all("must be the only call" in text for _, text in found.values())


async def test_the_same_exclusive_tool_twice_is_not_alone() -> None:
    result = await scripted([[call("plan"), call("plan")], "Sorry."], plan).run("?")
    assert set(outcomes(result.history).values()) == {"refused"}


async def test_a_client_s_call_beside_an_exclusive_one_does_not_park_the_run() -> None:
    turn = [call("asks_client", n=1), call("plan")]
    result = await scripted([turn, "Sorry."], asks_client, plan).run("?")
    assert result.reason == "stop"
    assert set(outcomes(result.history).values()) == {"refused"}


async def test_a_provider_s_call_beside_an_exclusive_one_does_not_count() -> None:
    turn = [call_raw("web_search", "{}", provider_executed=True), call("plan")]
    result = await scripted([turn, "Done."], plan).run("?")
    assert outcomes(result.history) == {"call_2": "ok"}


async def test_a_pure_call_that_already_runs_is_stopped_by_an_exclusive_one() -> None:
    turn = [call("look", seconds=100), pause(1), call("plan")]
    run = scripted([turn, "Sorry."], look, plan).run("?")
    events = await events_of(run)
    assert outcomes(run.history) == {"call_1": "refused", "call_2": "refused"}
    assert check_events(events).reason == "stop"
    assert now() == 1.0


async def test_the_history_has_the_refusal_of_a_pure_call_that_had_already_finished() -> None:
    run = scripted([[call("look"), pause(1), call("plan")], "Sorry."], look, plan).run("?")
    await run
    assert outcomes(run.history) == {"call_1": "refused", "call_2": "refused"}


async def test_an_exclusive_call_does_not_start_before_its_message_is_complete() -> None:
    @tool(effect="pure", exclusive=True)
    async def alone() -> str:
        """Must be called alone."""
        return "fine"

    run = scripted([[call("alone"), pause(5), call("look")], "Sorry."], alone, look).run("?")
    events = await events_of(run)
    assert only(ToolStarted, events) == []


async def test_a_refusal_for_company_does_not_count_against_a_tool() -> None:
    pair = [call("plan"), call("advise")]
    result = await scripted([pair, pair, pair, call("plan"), "Done."], plan, advise).run("?")
    assert list(outcomes(result.history).values()) == ["refused"] * 6 + ["ok"]


# --- Active tools -------------------------------------------------------------------------------


async def test_only_active_tools_are_shown_to_the_model() -> None:
    agent = scripted(["Hi"], look, act, active=lambda context: ["act"])
    await agent.run("?")
    assert [spec.name for spec in requests_of(agent)[0].tools] == ["act"]


async def test_an_inactive_call_is_refused() -> None:
    agent = scripted([[call("act"), call("look")], "Hm."], look, act, active=lambda _: ["look"])
    run = agent.run("?")
    events = await events_of(run)
    assert outcomes(run.history) == {"call_1": "refused", "call_2": "ok"}
    assert "not available" in results_in(run.history)["call_1"][1]
    assert finished(events) == {"call_1": 1, "call_2": 1}


async def test_an_inactive_pure_call_does_not_start_from_the_stream() -> None:
    agent = scripted([[call("look"), pause(5)], "Hm."], look, active=lambda _: [])
    run = agent.run("?")
    events = await events_of(run)
    assert only(ToolStarted, events) == []
    assert outcomes(run.history) == {"call_1": "refused"}


async def test_which_tools_are_active_may_follow_from_the_history() -> None:
    def first_look(context: Context) -> list[str]:
        return ["act"] if any(m.kind == "results" for m in context.history) else ["look"]

    agent = scripted([call("look"), call("act"), "Done."], look, act, active=first_look)
    result = await agent.run("?")
    assert [[spec.name for spec in request.tools] for request in requests_of(agent)] == [
        ["look"],
        ["act"],
        ["act"],
    ]
    assert outcomes(result.history) == {"call_1": "ok", "call_2": "ok"}


async def test_open_calls_of_an_earlier_run_may_use_what_was_active_then() -> None:
    def first_look(context: Context) -> list[str]:
        return ["act"] if any(m.calls for m in context.history) else ["look"]

    agent = scripted([call("look"), "Done."], look, act, active=first_look)
    before = await agent.run("?")
    result = await agent.replace(model=scripted(["Done."]).model).run(history=before.history[:2])
    assert outcomes(result.history) == {"call_1": "ok"}


async def test_a_name_that_is_no_tool_may_be_active() -> None:
    agent = scripted(["Hi"], look, active=lambda context: ["look", "nothing"])
    await agent.run("?")
    assert [spec.name for spec in requests_of(agent)[0].tools] == ["look"]


async def test_a_call_of_the_provider_s_is_not_run_by_a_tool_of_ours_with_its_name() -> None:
    turn = [call_raw("look", "{}", provider_executed=True), say("Found."), pause(5)]
    run = scripted([turn], look).run("?")
    events = await events_of(run)
    assert only(ToolStarted, events) == []
    assert check_events(events).reason == "stop"


# --- Calls that start from the stream -----------------------------------------------------------

ONE_ATTEMPT = Policy(retry=Retry(attempts=1))


async def test_a_failed_attempt_ends_its_pure_calls_before_the_next_begins() -> None:
    turn = [call("look", seconds=100), pause(1), fail(status=503, retry_after=5)]
    run = scripted([turn, [call("look", what="b")], "Done."], look).run("?")
    events = await events_of(run)
    check_events(events)
    order = names(events)
    assert order.index("ToolFinished") < order.index("Retrying")
    assert texts(run.history, "answer")[-1] == "Done."
    assert list(results_in(run.history).values()) == [("ok", "saw b")]
    assert now() == 6.0


async def test_a_call_with_an_effect_never_runs_when_its_stream_fails() -> None:
    turn = [call("act", what="a"), pause(1), fail(status=503)]
    run = scripted([turn, "Done."], act).run("?")
    events = await events_of(run)
    assert only(ToolStarted, events) == []
    assert kinds(run.history) == ["prompt", "answer"]


async def test_eager_all_starts_every_tool_from_the_stream() -> None:
    turn = [call("act", what="a", seconds=3), pause(5), say("and so on")]
    run = scripted([turn, "Done."], act, eager="all").run("?")
    events = await events_of(run)
    order = names(events)
    assert order.index("ToolFinished") < order.index("TextDelta")
    assert finished(events) == {"call_1": 1}
    assert results_in(run.history) == {"call_1": ("ok", "did a")}
    assert check_events(events).summary.seconds == 5.0


async def test_eager_all_runs_calls_with_an_effect_one_after_another() -> None:
    turn = [call("act", what="a", seconds=3), call("act", what="b", seconds=3), pause(1)]
    run = scripted([turn, "Done."], act, eager="all").run("?")
    await run
    assert now() == 6.0
    assert outcomes(run.history) == {"call_1": "ok", "call_2": "ok"}


async def test_eager_all_does_not_try_again_after_a_call_has_run() -> None:
    turn = [say("I will."), call("act", what="a"), pause(1), fail(status=503)]
    agent = scripted([turn, "Done."], act, eager="all")
    run = agent.run("?")
    events = await events_of(run)
    last = check_events(events)
    assert last.failure is not None
    assert (last.reason, last.failure.kind) == ("error", "overloaded")
    assert only(Retrying, events) == []
    assert len(requests_of(agent)) == 1
    assert kinds(run.history) == ["prompt", "answer", "results"]
    assert run.history[1].finish == "error"
    assert results_in(run.history) == {"call_1": ("ok", "did a")}


async def test_eager_all_keeps_finished_results_and_cancels_the_rest() -> None:
    turn = [
        call("act", what="a"),
        call("act", what="b", seconds=100),
        call("act", what="c"),
        pause(1),
        fail(status=503),
    ]
    run = scripted([turn], act, eager="all").run("?")
    events = await events_of(run)
    check_events(events)
    assert results_in(run.history)["call_1"] == ("ok", "did a")
    assert list(outcomes(run.history).values()) == ["ok", "interrupted", "interrupted"]
    assert finished(events) == {"call_1": 1, "call_2": 1, "call_3": 1}
    assert now() == 1.0


async def test_eager_all_goes_on_from_what_a_failed_stream_left() -> None:
    turn = [call("act", what="a"), pause(1), fail(status=503)]
    agent = scripted([turn, "I see."], act, eager="all")
    failed = await outcome(agent.run("?"))
    result = await agent.run("Go on", history=failed.history)
    assert result.text == "I see."
    sent = requests_of(agent)[-1].messages
    assert kinds(sent) == ["prompt", "answer", "results", "prompt"]


async def test_eager_all_tries_again_when_nothing_has_run_yet() -> None:
    agent = scripted([[say("I will"), fail(status=503)], call("act"), "Done."], act, eager="all")
    assert (await agent.run("?")).text == "Done."


async def test_eager_all_does_not_start_what_needs_approval_or_must_be_alone() -> None:
    @tool(approval="ask")
    async def delete() -> str:
        """Delete everything."""
        return "gone"

    for name, one in (("delete", delete), ("plan", plan), ("asks_client", asks_client)):
        turn = [call_raw(name, '{"n": 1}' if name == "asks_client" else "{}"), pause(5), say("x")]
        run = scripted([turn, "Done."], one, eager="all").run("?")
        events = await events_of(run)
        before = events[: names(events).index("TextDelta")]
        assert only(ToolStarted, before) == []


async def test_eager_all_never_says_of_a_call_that_it_was_not_run_when_it_was() -> None:
    turn = [call("act", what="a"), call("act", what="b", seconds=100), pause(1), call("plan")]
    run = scripted([turn, "Sorry."], act, plan, eager="all").run("?")
    events = await events_of(run)
    check_events(events)
    found = results_in(run.history)
    assert found["call_1"] == ("ok", "did a")
    assert found["call_2"][0] == "interrupted"
    assert "may have taken effect" in found["call_2"][1]
    assert found["call_3"][0] == "refused"
    assert finished(events) == {"call_1": 1, "call_2": 1, "call_3": 1}
    assert now() == 1.0


async def test_eager_all_leaves_the_rest_alone_when_somebody_speaks() -> None:
    turn = [call("act", what="a", seconds=10), call("act", what="b"), pause(5)]
    agent = scripted([turn, "I see."], act, eager="all")
    run = agent.run("?")
    later(2, lambda: run.steer("Wait!"))
    events = await events_of(run)
    assert outcomes(run.history) == {"call_1": "ok", "call_2": "skipped"}
    assert finished(events) == {"call_1": 1, "call_2": 1}
    assert requests_of(agent)[-1].messages[-1] == user_message("Wait!")


@pytest.mark.parametrize("eager", ["pure", "all"])
async def test_an_answer_without_calls_costs_nothing_more(eager: Any) -> None:
    run: Run = scripted(["Hi"], act, eager=eager).run("?")
    events = await events_of(run)
    assert only(ToolFinished, events) == []
    assert check_events(events).reason == "stop"


async def test_an_unknown_name_is_told_only_the_tools_that_are_active() -> None:
    agent = scripted([call("nothing"), "Done."], look, act, active=lambda context: ["look"])
    result = await agent.run("?")
    ((_, text),) = results_in(result.history).values()
    assert "Known tools: look." in text


async def test_failures_of_one_answer_refuse_no_call_of_that_answer() -> None:
    agent = scripted([[call("stumble") for _ in range(5)], "Done."], stumble)
    result = await agent.run("?")
    made = [outcome for outcome, _ in results_in(result.history).values()]
    assert made == ["failed"] * 5
