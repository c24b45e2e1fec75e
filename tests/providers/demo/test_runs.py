"""Whole runs of an agent with the demo model: everything that a run can do can be tried with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from pydantic import BaseModel

from holdfast import Agent, approve
from holdfast.hooks import Deny
from holdfast.kernel.events import Compacted, Retrying
from holdfast.kernel.title_request import cleaned, title_request
from holdfast.messages import Message, dump, load
from holdfast.providers.demo import SPEECH, Demo
from holdfast.testing import ports
from holdfast.tools.ask_user import UserAnswer, answered, ask_user, questions
from tests.kernel.runs import events_of, kinds, later, only, outcome
from tests.providers.demo.requests import ALL, answer


def demo(*tools: Any, pace: float = 0, window: int = 32_000, **more: Any) -> Agent[Any, Any]:
    return Agent(model=Demo(pace=pace, window=window), tools=tools or ALL, ports=ports(), **more)


def tools_of(history: Sequence[Message]) -> list[str]:
    return [call.tool for message in history for call in message.calls]


# --- Tools --------------------------------------------------------------------------------------


async def test_a_chain_is_done_step_by_step() -> None:
    result = await demo().run("list src, then read a.txt lines 1-2, then run make, then say done")
    assert kinds(result.history) == ["prompt", *["answer", "results"] * 3, "answer"]
    assert tools_of(result.history) == ["list_files", "read_file", "execute"]
    assert result.history[1].text == f"{SPEECH}\n\nListing `src`."
    assert "```\nline 1 of a.txt\nline 2 of a.txt\n```" in result.history[5].text
    assert result.text == "`execute` (`make`) returned:\n\n```\n$ make\n```\n\ndone"


@pytest.mark.parametrize("steps", [1, 3, 5])
async def test_a_chain_goes_on_after_a_restart(steps: int) -> None:
    whole = (await demo().run("list src, then read a.txt, then run make; say done")).history
    result = await demo().run(history=load(dump(whole[:steps])))
    assert [message.parts for message in result.history] == [message.parts for message in whole]


async def test_a_chain_goes_on_after_something_failed() -> None:
    result = await demo().run("run false, then call an unknown tool, then bad arguments, then list")
    outcomes = [result.outcome for message in result.history for result in message.results]
    assert outcomes == ["failed", "refused", "failed", "ok"]
    said = " ".join(message.text for message in result.history if message.kind == "answer")
    for piece in ("`execute` (`false`) failed:", "no tool named", "not valid JSON"):
        assert piece in said


async def test_what_is_asked_twice_is_called_twice_under_other_ids() -> None:
    agent = demo()
    first = await agent.run("list, then list")
    second = await agent.run("list, then list", history=first.history)
    ids = [call.id for message in second.history for call in message.calls]
    assert (len(ids), len(set(ids))) == (4, 4)
    assert all(id.startswith("demo_") for id in ids)  # none had to be changed


async def test_a_person_is_asked_before_a_file_is_written() -> None:
    agent = demo()
    asked = await agent.run("write hello to notes.txt, then list")
    (action,) = asked.actions
    assert action.kind == "approval"
    done = await agent.run(history=asked.history, resolve={action.call.id: approve(action)})
    assert tools_of(done.history) == ["write_file", "list_files"]
    assert "wrote 5 characters to notes.txt" in done.history[3].text
    refused = await agent.run(history=asked.history, resolve={action.call.id: Deny("not now")})
    assert "`write_file` (`notes.txt`) refused:" in refused.history[3].text
    assert "not now" in refused.history[3].text


async def test_it_asks_and_repeats_what_was_answered() -> None:
    agent = demo(ask_user())
    asked = await agent.run("ask me Which colour: red or blue, then say thanks")
    (action,) = asked.actions
    assert action.kind == "answer"
    said = answered(questions(action.arguments), [UserAnswer(("blue",))])
    result = await agent.run(history=asked.history, resolve={action.call.id: said})
    assert "→ blue" in result.text
    assert result.text.endswith("thanks")


# --- Messages in between ------------------------------------------------------------------------


async def test_steering_ends_a_chain_and_is_answered() -> None:
    run = demo(pace=0.1).run("list src, then read a.txt, then run make")
    later(0.5, lambda: run.steer("say I was steered"))
    result = await run
    assert result.text.endswith("I was steered")
    assert "execute" not in tools_of(result.history)


# --- Trouble ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "retried"),
    [
        ("rate limit", "rate_limit"),
        ("server", "server"),
        ("cut", "stream_cut"),
        ("empty", "empty_response"),
        ("silent", "stream_silent"),
    ],
)
async def test_it_goes_through_after_as_many_failures_as_asked_for(kind: str, retried: str) -> None:
    run = demo().run(f"list, then fail twice with {kind}, then read a.txt")
    events = await events_of(run)
    assert [event.kind for event in only(Retrying, events)] == [retried] * 2
    result = await run
    assert "Attempt 3 went through." in result.history[3].text
    assert tools_of(result.history) == ["list_files", "read_file"]


async def test_it_fails_for_good_and_the_next_prompt_is_answered() -> None:
    result = await outcome(demo().run("fail with content filter"))
    assert result.failure is not None
    assert (result.reason, result.failure.kind) == ("error", "content_filter")
    assert (await demo().run("say hi", history=result.history)).text == "hi"


# --- Forms --------------------------------------------------------------------------------------


class Weather(BaseModel):
    city: str
    degrees: list[float]
    nearby: list[str] | None


async def test_an_output_type_is_met_after_calls() -> None:
    result = await demo(output=Weather).run("list, then help")
    assert tools_of(result.history) == ["list_files"]
    assert result.output == Weather(city="demo", degrees=[], nearby=[])


async def test_a_wrong_form_is_repaired_and_a_right_one_is_taken() -> None:
    result = await demo(output=Weather).run('say {"city": 5}')
    assert "repair" in [message.why for message in result.history]
    assert isinstance(result.output, Weather)
    assert (await demo(output=int).run("say 42")).output == 42


# --- Long conversations -------------------------------------------------------------------------


async def test_a_long_conversation_is_summarized() -> None:
    agent = demo(window=4_000)
    history: Sequence[Message] = ()
    for number in range(6):
        prompt = f"read file{number}.txt, then long answer of 500 words"
        history = (await agent.run(prompt, history=history)).history
    summaries = [message.text for message in history if message.kind == "checkpoint"]
    assert len(summaries) > 1
    assert "## Goal\nread file" in summaries[-1]
    assert all("- File: file1.txt" in summary for summary in summaries)  # kept from the first
    assert len(history[-1].text.split()) > 500


@pytest.mark.parametrize("count", [6, 12])
async def test_a_chain_goes_on_where_it_was_when_its_steps_were_summarized(count: int) -> None:
    chain = ", then ".join(f"call weather city={'x' * 900}{number}" for number in range(count))
    result = await demo(window=4_000 + 400 * count).run(f"{chain}, then say done")
    assert any(message.kind == "checkpoint" for message in result.history)
    given = [call.arguments for message in result.history for call in message.calls]
    assert [text.rstrip('"}')[-2:].strip("x") for text in given] == [*map(str, range(count))]
    assert result.text.endswith("done")


async def test_an_overflow_is_summarized_and_tried_again() -> None:
    agent = demo()
    first = await agent.run("long answer of 2,000 words")
    run = agent.run("fail with context overflow", history=first.history)
    assert len(only(Compacted, await events_of(run))) == 1
    assert "Attempt 2 went through." in (await run).text


# --- Titles -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prompt", "title"),
    [
        ("list src, then run make", "List src, then run make"),
        ("say  hello\nto everybody", "Say hello to everybody"),
        ("fail for good", "Fail for good"),
        ("", "A conversation"),
        ("word " * 50, "Word " + "word " * 10 + "word…"),
    ],
)
async def test_a_title_is_how_the_conversation_begins(prompt: str, title: str) -> None:
    for _ in range(2):
        said = (await answer(title_request(prompt, "an answer"))).text
        assert cleaned(said) == title
