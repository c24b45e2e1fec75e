"""Calls that start while the answer is still being written."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast import Agent, Run, Tool, ToolContext, tool
from holdfast.errors import ConfigError, RunFailed
from holdfast.kernel.events import (
    MessageCommitted,
    Retrying,
    RunEnded,
    ToolCalled,
    ToolFinished,
    ToolStarted,
    Warned,
)
from holdfast.kernel.model import TextDelta
from holdfast.options import Policy, Retry
from holdfast.testing import ScriptedModel, call, call_raw, cut, fail, finish, hang, pause, say
from tests.kernel.runs import events_of, now, only
from tests.kernel.toolkit import (
    agent_for,
    assert_valid,
    finished,
    outcomes,
    results_in,
    turns,
    watched,
)


class Log(list[str]):
    """What happened to the calls, with the virtual second."""

    def note(self, what: str) -> None:
        self.append(f"{what} {now():g}")

    async def work(self, name: str, seconds: float) -> str:
        self.note(f"{name} began")
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            self.note(f"{name} cancelled")
            raise
        self.note(f"{name} ended")
        return name


def look_tool(log: Log, **properties: Any) -> Tool:
    async def look(name: str = "look", seconds: float = 1.0) -> str:
        return await log.work(name, seconds)

    return tool(**{"name": "look", "effect": "pure", **properties})(look)


def act_tool(log: Log, **properties: Any) -> Tool:
    return look_tool(log, **{"name": "act", "effect": "once", **properties})


LATER = pause(10)
"""The rest of the answer takes this long."""


async def test_a_pure_call_starts_before_its_answer_is_committed() -> None:
    log = Log()
    script = [[call("look"), LATER, "Let me see."], "."]
    events, result = await watched(agent_for(script, look_tool(log)).run("Go."))

    assert log == ["look began 0", "look ended 1"]
    order = [
        type(event)
        for event in events
        if isinstance(event, (ToolCalled, ToolStarted, ToolFinished))
        or (isinstance(event, MessageCommitted) and event.message.kind in ("answer", "results"))
    ]
    assert order == [
        ToolCalled,
        ToolStarted,
        ToolFinished,
        MessageCommitted,
        MessageCommitted,
        MessageCommitted,
    ]
    assert [message.kind for message in result.history] == ["prompt", "answer", "results", "answer"]
    assert now() == 10


async def test_a_call_that_started_early_is_not_run_again() -> None:
    log = Log()
    script = [[call("look", seconds=15), LATER], "."]
    result = await agent_for(script, look_tool(log)).run("Go.")
    assert log == ["look began 0", "look ended 15"]
    assert outcomes(result.history) == ["ok"]


async def test_early_calls_keep_the_limit_and_the_order() -> None:
    log = Log()
    script = [[*[call("look", name=f"{n}") for n in range(10)], LATER], "."]
    await agent_for(script, look_tool(log)).run("Go.")
    assert log[:8] == [f"{n} began 0" for n in range(8)]
    assert "8 began 1" in log
    assert "9 began 1" in log


@pytest.mark.parametrize("effect", ["once", "idempotent"])
async def test_a_call_that_is_not_pure_starts_only_after_the_commit(effect: Any) -> None:
    log = Log()
    events, _ = await watched(
        agent_for([[call("act", name="act"), LATER], "."], act_tool(log, effect=effect)).run("Go.")
    )
    assert log == ["act began 10", "act ended 11"]
    committed = [
        at
        for at, event in enumerate(events)
        if isinstance(event, MessageCommitted) and event.message.kind == "answer"
    ]
    (started,) = [at for at, event in enumerate(events) if isinstance(event, ToolStarted)]
    assert committed[0] < started


async def test_a_pure_call_behind_one_that_is_not_pure_waits_with_it() -> None:
    log = Log()
    script = [
        [call("look", name="a"), call("act", name="b"), call("look", name="c"), LATER],
        ".",
    ]
    await agent_for(script, look_tool(log), act_tool(log)).run("Go.")
    assert log == ["a began 0", "a ended 1", "b began 10", "b ended 11", "c began 11", "c ended 12"]


@pytest.mark.parametrize("tool_name", ["nothing", "look"])
async def test_a_call_that_will_not_run_holds_up_what_is_behind_it_or_not(tool_name: str) -> None:
    """Of an unknown tool nobody knows whether it is pure; bad arguments are the tool's own."""
    log = Log()
    script = [[call(tool_name, seconds="long"), call("look", name="b"), LATER], "."]
    result = await agent_for(script, look_tool(log)).run("Go.")
    assert log[0] == ("b began 10" if tool_name == "nothing" else "b began 0")
    assert outcomes(result.history) == ["refused" if tool_name == "nothing" else "failed", "ok"]


@pytest.mark.parametrize(
    "properties",
    [{"approval": lambda values: False}, {"exclusive": True}],
    ids=["approval", "exclusive"],
)
async def test_a_pure_call_that_is_approved_or_exclusive_does_not_start_early(
    properties: dict[str, Any],
) -> None:
    log = Log()
    await agent_for([[call("look"), LATER], "."], look_tool(log, **properties)).run("Go.")
    assert log[0] == "look began 10"


async def test_a_call_of_the_client_does_not_start_anything_early() -> None:
    log = Log()
    pick = Tool(name="pick", schema={"type": "object"}, effect="pure")
    script = [[call("pick"), call("look"), LATER]]
    result = await agent_for(script, look_tool(log), pick).run("Go.")
    assert log[0] == "look began 10"
    assert result.reason == "requires_action"


async def test_a_call_that_the_provider_executes_is_not_ours_to_start() -> None:
    log = Log()
    script = [[call_raw("look", "{}", id="web_1", provider_executed=True), LATER, "Found it."]]
    events, result = await watched(agent_for(script, look_tool(log)).run("Go."))
    assert not log
    assert not finished(events)
    assert result.reason == "stop"
    assert results_in(result.history) == []


async def test_a_provider_s_call_holds_up_no_early_call_behind_it() -> None:
    log = Log()
    script = [[call_raw("web", "{}", provider_executed=True), call("look"), LATER], "."]
    await agent_for(script, look_tool(log)).run("Go.")
    assert log[0] == "look began 0"


async def test_an_early_call_beside_an_exclusive_one_is_refused_like_the_others() -> None:
    log = Log()

    @tool(exclusive=True)
    async def plan() -> None: ...

    script = [[call("look", seconds=60), pause(1), call("plan"), LATER], "."]
    result = await agent_for(script, look_tool(log), plan).run("Go.")
    assert log == ["look began 0", "look cancelled 11"]
    assert outcomes(result.history) == ["refused", "refused"]
    assert_valid(result.history)


async def test_a_call_whose_end_the_provider_does_not_say_starts_when_the_answer_ends() -> None:
    log = Log()
    script = [[call_raw("look", "{}", ended=False), LATER], "."]
    result = await agent_for(script, look_tool(log)).run("Go.")
    assert log[0] == "look began 10"
    assert outcomes(result.history) == ["ok"]


async def test_an_answer_cut_by_length_runs_its_complete_calls() -> None:
    log = Log()
    script = [
        [call("look"), call("act"), call_raw("look", '{"name": "x', ended=False), finish("length")],
        ".",
    ]
    result = await agent_for(script, look_tool(log), act_tool(log)).run("Go.")
    assert len(result.history[1].calls) == 2
    assert outcomes(result.history) == ["ok", "ok"]
    assert "x" not in "".join(log)


# --- a failed attempt ---------------------------------------------------------------------------


@pytest.mark.parametrize("trouble", [fail(status=500), cut()], ids=["error", "cut"])
async def test_a_failed_attempt_cancels_and_awaits_its_calls_before_the_next(trouble: Any) -> None:
    log = Log()

    @tool(effect="pure")
    async def look() -> str:
        log.note("began")
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(3)
            log.note("clean")
        return "seen"

    script: list[Any] = [
        [call("look"), pause(1), trouble],
        [lambda request: log.note("second attempt"), "I do not need to look."],
    ]
    agent = agent_for(script, look, policy=Policy(retry=Retry(first_delay=0)))
    events, result = await watched(agent.run("Go."))

    assert log == ["began 0", "clean 4", "second attempt 4"]
    assert len(only(Retrying, events)) == 1
    assert [message.kind for message in result.history] == ["prompt", "answer"]
    assert result.text == "I do not need to look."


async def test_a_failed_attempt_waits_no_longer_than_the_grace_for_a_stubborn_call() -> None:
    go = asyncio.Event()

    @tool(effect="pure")
    async def look() -> None:
        while not go.is_set():
            try:
                await go.wait()
            except asyncio.CancelledError:
                continue

    script = [[call("look"), pause(1), fail(status=500)], "Never mind."]
    agent = agent_for(script, look, policy=Policy(retry=Retry(first_delay=0)))
    events, result = await watched(agent.run("Go."))
    go.set()
    await turns()

    assert now() == 6
    assert len(only(Warned, events)) == 1
    assert result.text == "Never mind."


async def test_what_a_failed_attempt_found_out_is_not_in_the_history() -> None:
    log = Log()
    script = [[call("look", name="a"), pause(2), fail(status=500)], [call("look", name="b")], "."]
    result = await agent_for(script, look_tool(log)).run("Go.")
    assert [made.text for made in results_in(result.history)] == ["b"]
    assert_valid(result.history)


async def test_a_run_that_gives_up_has_no_call_left() -> None:
    log = Log()
    agent = agent_for([[call("look", seconds=60), pause(1), fail(status=401)]], look_tool(log))
    with pytest.raises(RunFailed):
        await agent.run("Go.")
    assert log == ["look began 0", "look cancelled 1"]


# --- interrupts and steering meanwhile ----------------------------------------------------------


async def run_and(run: Run, seconds: float, what: Any) -> list[Any]:
    reading = asyncio.create_task(events_of(run))
    await asyncio.sleep(seconds)
    what()
    return await reading


async def test_an_interrupt_keeps_the_results_of_early_calls_that_finished() -> None:
    log = Log()
    script = [
        [
            say("Let me see."),
            call("look", name="a", seconds=1),
            call("look", name="b", seconds=60),
            call("act", name="c"),
            call_raw("look", '{"na', ended=False),
            hang(),
        ]
    ]
    run = agent_for(script, look_tool(log), act_tool(log)).run("Go.")
    events = await run_and(run, 2, run.interrupt)
    result = await run

    assert log == ["a began 0", "b began 0", "a ended 1", "b cancelled 2"]
    answer = result.history[1]
    assert (answer.text, answer.finish) == ("Let me see.", "interrupted")
    assert [part.id for part in answer.calls] == ["call_1", "call_2", "call_3"]
    assert outcomes(result.history) == ["ok", "interrupted", "interrupted"]
    assert sorted(finished(events)) == [
        ("call_1", "ok"),
        ("call_2", "interrupted"),
        ("call_3", "interrupted"),
        ("call_4", "interrupted"),
    ]
    assert result.reason == "interrupted"
    assert result.history[-1].kind == "marker"
    assert_valid(result.history)


async def test_an_interrupt_waits_for_the_clean_up_of_early_calls() -> None:
    log = Log()

    @tool(effect="pure")
    async def look() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(3)
            log.note("clean")

    run = agent_for([[call("look"), hang()]], look).run("Go.")
    await run_and(run, 2, run.interrupt)
    assert log == ["clean 5"]


LOOK_AND_TALK = [call("look", seconds=600), pause(1), "first", "last"]


async def test_an_interrupt_that_comes_while_the_reader_is_slow_ends_each_call_once() -> None:
    """The answer is committed, its early call still runs, and the run waits for its reader."""
    log = Log()
    run = agent_for([LOOK_AND_TALK, "."], look_tool(log), policy=Policy(buffer=1)).run("Go.")
    events: list[Any] = []
    async for event in run:
        events.append(event)
        if event == TextDelta("last"):
            await asyncio.sleep(5)
            assert run.history[-1].kind == "answer"
            run.interrupt()
    result = await run

    assert finished(events) == [("call_1", "interrupted")]
    assert outcomes(result.history) == ["interrupted"]
    assert log == ["look began 0", "look cancelled 6"]
    assert isinstance(events[-1], RunEnded)


async def test_steering_cancels_early_calls_starts_no_more_and_lets_the_answer_go_on() -> None:
    log = Log()
    script = [
        [call("look", name="a", seconds=60), pause(5), call("look", name="b"), pause(5), "So."],
        "I see.",
    ]
    run = agent_for(script, look_tool(log)).run("Go.")
    await run_and(run, 2, lambda: run.steer("Something else."))
    result = await run

    assert log == ["a began 0", "a cancelled 2"]
    assert now() == 10
    by_call = {made.call_id: made.outcome for made in results_in(result.history)}
    assert by_call == {"call_1": "interrupted", "call_2": "skipped"}
    assert result.history[1].text == "So."
    assert result.text == "I see."
    assert_valid(result.history)


async def test_steering_lets_an_early_call_finish_that_says_so() -> None:
    log = Log()
    script = [[call("look", seconds=20), pause(5), call("act")], "I see."]
    agent = agent_for(script, look_tool(log, on_steer="finish"), act_tool(log))
    run = agent.run("Go.")
    await run_and(run, 2, lambda: run.steer("Something else."))
    result = await run

    assert log == ["look began 0", "look ended 20"]
    by_call = {made.call_id: made.outcome for made in results_in(result.history)}
    assert by_call == {"call_1": "ok", "call_2": "skipped"}
    assert_valid(result.history)


async def test_steering_that_comes_while_the_reader_is_slow_cancels_early_calls_too() -> None:
    log = Log()
    run = agent_for([LOOK_AND_TALK, "I see."], look_tool(log), policy=Policy(buffer=1)).run("Go.")
    async for event in run:
        if event == TextDelta("last"):
            await asyncio.sleep(5)
            assert run.history[-1].kind == "answer"
            run.steer("Something else.")

    assert log == ["look began 0", "look cancelled 6"]
    assert outcomes((await run).history) == ["interrupted"]


async def test_closing_a_run_ends_its_early_calls() -> None:
    log = Log()
    async with agent_for([[call("look", seconds=60), hang()]], look_tool(log)).run("Go."):
        await asyncio.sleep(1)
    assert log == ["look began 0", "look cancelled 1"]


async def test_an_early_call_may_interrupt_the_run() -> None:
    @tool(effect="pure")
    async def look() -> str:
        run.interrupt()
        return "seen"

    run = agent_for([[say("Let me see."), call("look"), hang()]], look).run("Go.")
    result = await run
    assert result.reason == "interrupted"
    assert outcomes(result.history) == ["ok"]


# --- eager="all" --------------------------------------------------------------------------------


async def test_with_eager_all_every_call_starts_from_the_stream() -> None:
    log = Log()
    script = [[call("act", name="a"), call("look", name="b"), call("act", name="c"), LATER], "."]
    result = await agent_for(script, look_tool(log), act_tool(log), eager="all").run("Go.")
    assert log == ["a began 0", "a ended 1", "b began 1", "b ended 2", "c began 2", "c ended 3"]
    assert outcomes(result.history) == ["ok"] * 3


@pytest.mark.parametrize("properties", [{"approval": "ask"}, {"exclusive": True}])
async def test_with_eager_all_what_must_be_approved_or_alone_still_waits(
    properties: dict[str, Any],
) -> None:
    log = Log()
    agent = agent_for(
        [[call("act", name="a"), LATER], "."], act_tool(log, **properties), eager="all"
    )
    await agent.run("Go.")
    assert log in ([], ["a began 10", "a ended 11"])


async def test_with_eager_all_a_stream_that_fails_after_a_call_is_not_tried_again() -> None:
    log = Log()
    script = [
        [
            call("act", name="a"),
            pause(2),
            call("act", name="b", seconds=60),
            pause(1),
            fail(status=500),
        ],
        "never said",
    ]
    agent = agent_for(script, act_tool(log), eager="all")
    with pytest.raises(RunFailed) as caught:
        await agent.run("Go.")

    result = caught.value.result
    assert log == ["a began 0", "a ended 1", "b began 2", "b cancelled 3"]
    assert caught.value.failure.kind == "server"
    made = results_in(result.history)
    assert [one.outcome for one in made] == ["ok", "interrupted"]
    assert "user" not in made[1].text, "it was not the user who stopped it"
    assert isinstance(agent.model, ScriptedModel)
    assert agent.model.left == 1
    assert_valid(result.history)


async def test_with_eager_all_a_stream_that_fails_before_any_call_is_tried_again() -> None:
    log = Log()
    agent = agent_for([["Let me", fail(status=500)], call("act"), "."], act_tool(log), eager="all")
    assert (await agent.run("Go.")).reason == "stop"


def test_eager_has_two_values() -> None:
    with pytest.raises(ConfigError, match="eager"):
        Agent(model=ScriptedModel(), eager="none")  # type: ignore[call-overload]


# --- progress of early calls --------------------------------------------------------------------


async def test_progress_of_an_early_call_is_shown_while_the_answer_goes_on() -> None:
    @tool(effect="pure")
    async def look(context: ToolContext) -> str:
        await context.progress("looking")
        return "seen"

    script = [[call("look"), LATER, "So."], "."]
    events = await events_of(agent_for(script, look).run("Go."))
    kinds = [type(event).__name__ for event in events]
    assert kinds.index("ToolProgressed") < kinds.index("TextDelta")
