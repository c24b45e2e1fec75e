"""One run from its first event to its last: what it shows, what it commits, what it sends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anyio
import pytest

from holdfast import (
    Block,
    ConfigError,
    Message,
    Policy,
    Request,
    Retry,
    RunFailed,
    Settings,
    Text,
    Usage,
    dump,
    load,
    tool,
)
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
from holdfast.testing import (
    START,
    call,
    call_raw,
    cut,
    fail,
    finish,
    notice,
    pause,
    say,
    think,
    usage,
)
from tests.kernel.runs import (
    act,
    check_events,
    events_of,
    kinds,
    look,
    model_of,
    names,
    now,
    only,
    outcome,
    requests_of,
    results_in,
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
    "max_steps": (
        "max_steps",
        None,
        lambda: scripted([call("look")], look, policy=Policy(max_steps=1)),
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
    "end_of_script": ("error", "internal", lambda: scripted([])),
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


# --- Histories in and out -----------------------------------------------------------------------


async def test_a_conversation_goes_on_over_several_runs() -> None:
    agent = scripted([call("look", what="a"), "First.", "Second.", "Third."], look)

    one = await agent.run("1")
    two = await agent.run("2", history=one.history)
    three = await agent.run("3", history=two.history)

    assert kinds(three.history) == ["prompt", "answer", "results", *["answer", "prompt"] * 2, "answer"]
    assert kinds(three.new) == ["prompt", "answer"]
    assert three.history[:-2] == two.history
    assert three.text == "Third."
    assert requests_of(agent)[-1].messages == three.history[:-1]


async def test_a_conversation_goes_on_after_it_was_stored() -> None:
    agent = scripted([[think("hm", signature="s"), call("look", what="\x00\ud800")], "1.", "2."], look)
    first = await agent.run("What \ue000 is it?")

    stored = load(dump(first.history))
    assert stored == first.history
    second = await agent.run("And now?", history=stored)

    assert requests_of(agent)[-1].messages == second.history[:-1]


async def test_without_a_prompt_the_history_says_what_comes_next() -> None:
    agent = scripted(["Hi"])
    result = await agent.run(history=[user_message("Hello")])
    assert (result.text, kinds(result.new)) == ("Hi", ["answer"])


async def test_a_history_at_rest_is_finished_without_asking_the_model() -> None:
    agent = scripted(["Hi"])
    first = await agent.run("Hello")
    again = await agent.run(history=first.history)
    assert (again.reason, again.new, again.text) == ("stop", (), "")
    assert len(requests_of(agent)) == 1


async def test_open_calls_of_a_history_are_run_first() -> None:
    agent = scripted([[call("act", what="it"), fail(ValueError())], "Done."], act, eager="all")
    history = (await scripted([call("act", what="it"), fail(status=401)], act).run("?").history)[:0]
    assert history == ()
    answered = await outcome(scripted([call("act", what="it"), fail(status=401)], act).run("?"))
    open_again = answered.history[:2]

    result = await agent.replace(eager="pure").run(history=open_again)

    assert result.history[2].results[0].text == "did it"


def test_neither_a_prompt_nor_a_history_is_an_error() -> None:
    with pytest.raises(ConfigError, match="give a prompt, or a history"):
        scripted(["Hi"]).run()


async def test_the_history_that_was_given_is_not_changed() -> None:
    given = [user_message("Hello")]
    await scripted(["Hi"]).run("?", history=given)
    assert given == [user_message("Hello")]


@pytest.mark.parametrize(
    "prompt",
    [
        "Hi",
        Text("Hi"),
        [Text("Hi")],
        (Text("H"), Text("i")),
        Message("user", (Text("Hi"),), "prompt"),
    ],
)
async def test_a_prompt_may_have_any_form(prompt: Any) -> None:
    result = await scripted(["Hello"]).run(prompt)
    assert (result.history[0].role, result.history[0].kind) == ("user", "prompt")
    assert result.history[0].text == "Hi"


async def test_two_runs_of_one_agent_know_nothing_of_each_other() -> None:
    agent = scripted([], default=lambda request: [pause(1), say(request.messages[-1].text)])
    results: dict[str, str] = {}

    async def ask(text: str) -> None:
        results[text] = (await agent.run(text)).text

    async with anyio.create_task_group() as group:
        for text in ("a", "b", "c"):
            group.start_soon(ask, text)

    assert results == {"a": "a", "b": "b", "c": "c"}
    assert now() == 1.0


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
    for earlier, request in zip(requests, requests[1:], strict=False):
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


async def test_what_only_people_see_is_not_sent() -> None:
    agent = scripted([call("look"), "Done.", "Again."], look, policy=Policy(max_steps=1))
    limited = await agent.run("?")
    assert limited.reason == "max_steps"
    await agent.run("Go on", history=limited.history)
    assert kinds(requests_of(agent)[-1].messages) == ["prompt", "answer", "results", "prompt"]


async def test_project_changes_what_is_sent_and_not_the_history() -> None:
    def newest(messages: Sequence[Message]) -> Sequence[Message]:
        return messages[-1:]

    agent = scripted(["One.", "Two."], project=newest)
    first = await agent.run("1")
    second = await agent.run("2", history=first.history)

    assert [message.text for message in requests_of(agent)[-1].messages] == ["2"]
    assert [message.text for message in second.history] == ["1", "One.", "2", "Two."]


async def test_what_project_tears_apart_is_repaired() -> None:
    def without_results(messages: Sequence[Message]) -> Sequence[Message]:
        return [message for message in messages if message.role != "tool"]

    def without_answers(messages: Sequence[Message]) -> Sequence[Message]:
        return [message for message in messages if message.role != "assistant"]

    for project, expected in ((without_results, {"call_1": "interrupted"}), (without_answers, {})):
        agent = scripted([call("look"), "Done."], look, project=project)
        result = await agent.run("?")
        sent = requests_of(agent)[-1].messages
        assert {c: o for c, (o, _) in results_in(sent).items()} == expected
        assert [m.role for m in sent] == (["user", "assistant", "tool"] if expected else ["user"])
        assert results_in(result.history)["call_1"][0] == "ok"


@pytest.mark.parametrize("hook", ["project", "active"])
async def test_a_hook_that_fails_once_is_asked_again(hook: str) -> None:
    asked = 0

    def shaky(messages: Sequence[Message]) -> Any:
        nonlocal asked
        asked += 1
        if asked == 1:
            raise KeyError("not yet")
        return messages if hook == "project" else ["look"]

    agent = scripted(["Hi"], look, **{hook: shaky})
    events = await events_of(agent.run("?"))
    (retrying,) = only(Retrying, events)
    assert retrying.kind == "prepare"
    assert check_events(events).reason == "stop"


# --- Length, steps, failures in a row ------------------------------------------------------------

RECOVERY = Policy().wording.recovery


async def test_an_answer_cut_by_length_is_asked_to_go_on() -> None:
    agent = scripted([[say("Once upon"), finish("length")], " a time."])

    run = agent.run("Tell")
    events = await events_of(run)

    assert kinds(run.history) == ["prompt", "answer", "injected", "answer"]
    asked = run.history[2]
    assert (asked.text, asked.visibility, asked.role) == (RECOVERY, "model", "user")
    assert requests_of(agent)[-1].messages[-1] == asked
    (delivered,) = (event for event in events if type(event).__name__ == "Delivered")
    assert (delivered.why, delivered.messages) == ("recovery", (asked,))  # type: ignore[union-attr]


async def test_a_turn_is_asked_to_go_on_three_times_at_most() -> None:
    agent = scripted([], default=[say("More"), finish("length")])
    result = await agent.run("Tell")
    assert texts(result.history, "answer") == ["More"] * 4
    assert texts(result.history, "injected") == [RECOVERY] * 3
    assert result.reason == "stop"


async def test_a_new_turn_may_be_asked_to_go_on_again() -> None:
    agent = scripted([], default=[say("More"), finish("length")])
    first = await agent.run("Tell")
    second = await agent.run("Go on", history=first.history)
    assert texts(second.new, "injected") == [RECOVERY] * 3


async def test_recovery_can_be_switched_off() -> None:
    agent = scripted([[say("Once"), finish("length")]], policy=Policy(recoveries=0))
    result = await agent.run("Tell")
    assert (result.reason, kinds(result.history)) == ("stop", ["prompt", "answer"])


async def test_complete_calls_of_an_answer_cut_by_length_are_run() -> None:
    turn = [call("act", what="it"), call_raw("act", '{"what": "ha', ended=False), finish("length")]
    agent = scripted([turn, "Done."], act)
    result = await agent.run("?")
    assert [call.id for call in result.history[1].calls] == ["call_1"]
    assert results_in(result.history) == {"call_1": ("ok", "did it")}
    assert "injected" not in kinds(result.history)


async def test_an_incomplete_call_of_an_answer_cut_by_length_is_dropped() -> None:
    turn = [say("I will"), call_raw("act", '{"what": "ha', ended=False), finish("length")]
    agent = scripted([turn, "Done."], act)
    result = await agent.run("?")
    assert result.history[1].parts == (Text("I will"),)
    assert kinds(result.history) == ["prompt", "answer", "injected", "answer"]


async def test_a_turn_that_reaches_its_limit_of_steps_ends_and_says_so_to_the_user() -> None:
    agent = scripted([], look, default=call("look"), policy=Policy(max_steps=3))

    result = await agent.run("?")

    assert (result.reason, result.summary.steps) == ("max_steps", 3)
    assert kinds(result.history) == ["prompt", *["answer", "results"] * 3, "note"]
    said = result.history[-1]
    assert said.visibility == "user"
    assert "limit of 3 steps" in said.text


async def test_an_answer_at_the_limit_of_steps_is_a_normal_end() -> None:
    agent = scripted([call("look"), "Done."], look, policy=Policy(max_steps=2))
    result = await agent.run("?")
    assert (result.reason, kinds(result.history)[-1]) == ("stop", "answer")


async def test_a_new_turn_has_all_its_steps_again() -> None:
    agent = scripted([], look, default=call("look"), policy=Policy(max_steps=2))
    first = await agent.run("?")
    second = await agent.run("Go on", history=first.history)
    assert second.summary.steps == 2


async def test_a_tool_that_failed_three_times_in_a_row_is_refused_for_the_rest_of_the_turn() -> None:
    agent = scripted([*[call("stumble")] * 5, "I give up."], stumble, look)
    result = await agent.run("?")
    found = list(results_in(result.history).values())
    assert [outcome for outcome, _ in found] == ["failed"] * 3 + ["refused"] * 2
    assert "failed 3 times in a row" in found[-1][1]
    assert (result.summary.tool_calls, result.summary.tool_errors) == (5, 3)


async def test_a_success_between_failures_closes_the_circuit_again() -> None:
    outcomes = iter([False, False, True, False, False, True])

    @tool
    async def moody() -> str:
        """Fail sometimes."""
        if not next(outcomes):
            raise RuntimeError
        return "fine"

    agent = scripted([*[call("moody")] * 6, "Done."], moody)
    result = await agent.run("?")
    assert [outcome for outcome, _ in results_in(result.history).values()] == [
        *["failed", "failed", "ok"] * 2
    ]


async def test_a_new_turn_closes_the_circuit_again() -> None:
    agent = scripted([*[call("stumble")] * 4, "No.", call("stumble"), "No."], stumble)
    first = await agent.run("?")
    second = await agent.run("Try again", history=first.history)
    assert [outcome for outcome, _ in results_in(second.new).values()] == ["failed"]


async def test_another_tool_is_not_refused_for_the_failures_of_one() -> None:
    agent = scripted([*[call("stumble")] * 3, call("look", what="it"), "Done."], stumble, look)
    result = await agent.run("?")
    assert list(results_in(result.history).values())[-1] == ("ok", "saw it")


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
    agent = scripted([[call("stumble"), usage(input=10)], "One.", ["Two.", usage(input=7)]], stumble)
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


async def test_the_same_script_gives_the_same_events_each_time() -> None:
    def make() -> Any:
        return scripted(
            [[call("look"), call("stumble")], fail(status=503), "Done."], look, stumble
        ).run("?")

    assert await events_of(make()) == await events_of(make())


async def test_nothing_of_the_script_is_left() -> None:
    agent = scripted([call("look"), "Done."], look)
    await agent.run("?")
    assert model_of(agent).left == 0
