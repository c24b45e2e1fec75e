"""Histories in and out of runs, and what a turn of one may cost: length, steps, failures."""

from __future__ import annotations

from typing import Any, Literal

import anyio
import pytest

from holdfast import Limits, tool
from holdfast.errors import ConfigError, RunFailed
from holdfast.events import RunEnded
from holdfast.kernel.messages import user_message
from holdfast.messages import Message, Text, dump, load
from holdfast.options import Policy, Retry
from holdfast.testing import (
    call,
    call_raw,
    cut,
    finish,
    pause,
    say,
    think,
)
from tests.kernel.runs import (
    act,
    events_of,
    kinds,
    look,
    now,
    outcome,
    requests_of,
    results_in,
    scripted,
    stumble,
    texts,
)

# --- Histories in and out -----------------------------------------------------------------------


async def test_a_conversation_goes_on_over_several_runs() -> None:
    agent = scripted([call("look", what="a"), "First.", "Second.", "Third."], look)

    one = await agent.run("1")
    two = await agent.run("2", history=one.history)
    three = await agent.run("3", history=two.history)

    called = ["prompt", "answer", "results", "answer"]
    assert kinds(three.history) == called + ["prompt", "answer"] * 2
    assert kinds(three.new) == ["prompt", "answer"]
    assert three.history[:-2] == two.history
    assert three.text == "Third."
    assert requests_of(agent)[-1].messages == three.history[:-1]


async def test_a_conversation_goes_on_after_it_was_stored() -> None:
    asking = [think("hm", signature="s"), call_raw("look", '{"what": "\\u0000\\ud83d\\ude00"}')]
    agent = scripted([asking, "1 \x00 \ud800", "2."], look)
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
    before = await scripted([call("act", what="it"), "Done."], act).run("?")
    agent = scripted(["Done."], act)

    result = await agent.run(history=before.history[:2])

    assert results_in(result.new) == {"call_1": ("ok", "did it")}
    assert result.history == before.history


def test_neither_a_prompt_nor_a_history_is_an_error() -> None:
    with pytest.raises(ConfigError, match="pass a prompt, or a history"):
        scripted(["Hi"]).run()


@pytest.mark.parametrize(
    "history", [[{"role": "user", "content": "Hi"}], "Hi", [("user", "Hi")], [Text("Hi")]]
)
def test_what_is_no_history_is_refused_with_what_to_do(history: Any) -> None:
    with pytest.raises(ConfigError, match=r"history of a result, or load"):
        scripted(["Hi"]).run("?", history=history)


@pytest.mark.parametrize("prompt", [5, {"text": "Hi"}, ["Hi"], [Text("Hi"), 5], b"Hi"])
def test_what_is_no_prompt_is_refused_with_what_to_do(prompt: Any) -> None:
    with pytest.raises(ConfigError, match=r"use text, or parts"):
        scripted(["Hi"]).run(prompt)


async def test_what_cannot_be_said_to_a_run_is_refused_and_the_run_goes_on() -> None:
    run = scripted(["Hi"]).run("?")
    for say_it in (run.steer, run.follow_up):
        with pytest.raises(ConfigError, match=r"use text, or parts"):
            say_it(5)  # type: ignore[arg-type]
    assert (await run).text == "Hi"


@pytest.mark.parametrize("history", [[], [user_message("Hello")]])
async def test_a_summary_of_nothing_is_refused(history: list[Message]) -> None:
    with pytest.raises(ConfigError, match="nothing to compact"):
        scripted([call("look"), "Hi"], look).run("?", history=history, compact=True)


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


async def test_the_text_of_a_result_is_all_pieces_of_an_answer_cut_by_length() -> None:
    once = [[say("Once"), finish("length")], [say(" upon"), finish("length")], " a time."]
    agent = scripted(["Before.", call("look"), *once], look)
    first = await agent.run("Hello")
    second = await agent.run("Tell", history=first.history)
    assert (first.text, second.text) == ("Before.", "Once upon a time.")


async def test_the_pieces_of_an_earlier_run_belong_to_the_answer_that_continues_them() -> None:
    stopped = await scripted([[say("Once"), finish("length")]], policy=Policy(recoveries=0)).run(
        "?"
    )
    result = await scripted([" more."]).run(history=stopped.history)
    assert result.text == "Once more."


async def test_an_answer_that_fails_after_a_recovery_is_part_of_the_text() -> None:
    script = [[say("Once"), finish("length")], [say(" upo"), cut()]]
    agent = scripted(script, policy=Policy(retry=Retry(attempts=1)))
    with pytest.raises(RunFailed) as caught:
        await agent.run("Tell")
    assert caught.value.result.text == "Once upo"


@pytest.mark.parametrize("why", ["content_filter", "length"])
async def test_an_answer_that_was_cut_is_in_the_outcome(
    why: Literal["content_filter", "length"],
) -> None:
    agent = scripted([[say("Visible"), finish(why)]], policy=Policy(recoveries=0))
    run = agent.run("Tell")
    events = await events_of(run)
    result = await run
    assert (result.reason, result.cut_by, result.text) == ("stop", why, "Visible")
    assert isinstance(events[-1], RunEnded)
    assert events[-1].cut_by == why


async def test_an_answer_that_is_complete_was_cut_by_nothing() -> None:
    script = [[say("Once"), finish("length")], " more."]
    assert (await scripted(script).run("?")).cut_by is None


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
    agent = scripted([], look, default=call("look"), limits=Limits(steps=3))

    result = await outcome(agent.run("?"))

    assert (result.reason, result.steps) == ("limit", 3)
    assert kinds(result.history) == ["prompt", *["answer", "results"] * 3, "note"]
    said = result.history[-1]
    assert said.visibility == "user"
    assert "this turn used 3 of 3 steps" in said.text


async def test_an_answer_at_the_limit_of_steps_is_a_normal_end() -> None:
    agent = scripted([call("look"), "Done."], look, limits=Limits(steps=2))
    result = await agent.run("?")
    assert (result.reason, kinds(result.history)[-1]) == ("stop", "answer")


async def test_a_new_turn_has_all_its_steps_again() -> None:
    agent = scripted([], look, default=call("look"), limits=Limits(steps=2))
    first = await outcome(agent.run("?"))
    second = await outcome(agent.run("Go on", history=first.history))
    assert second.steps == 2


async def test_a_tool_that_failed_in_three_answers_in_a_row_is_refused() -> None:
    agent = scripted([*[call("stumble")] * 5, "I give up."], stumble, look)
    result = await agent.run("?")
    found = list(results_in(result.history).values())
    assert [outcome for outcome, _ in found] == ["failed"] * 3 + ["refused"] * 2
    assert "failed in 3 answers in a row" in found[-1][1]
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
