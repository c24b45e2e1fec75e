"""Hand-off in memory: another agent continues the conversation."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast import Agent, handoff
from holdfast.errors import ConfigError
from holdfast.events import HandedOver, MessageCommitted
from holdfast.kernel.handoff import handed_to
from holdfast.messages import dump, load
from holdfast.testing import call
from tests.kernel.runs import act, events_of, look, only, requests_of, scripted
from tests.kernel.toolkit import results_in


def billing(*script: Any, **options: Any) -> Agent[Any, Any]:
    options = {"instructions": "You are billing.", "description": "Invoices."} | options
    return scripted(script, look, name="billing", **options)


def triage(to: Agent[Any, Any], *script: Any) -> Agent[Any, Any]:
    handing = [call("handoff", agent="billing", message="VAT."), *script]
    return scripted(handing, handoff([to]), act, name="triage", instructions="You are triage.")


async def test_another_agent_continues_from_the_next_step_on() -> None:
    other = billing(call("look"), "Your invoice is right.")
    first = triage(other)
    events = await events_of(run := first.run("My invoice?"))
    result = await run
    assert result.text == "Your invoice is right."
    assert len(requests_of(first)) == 1
    request = requests_of(other)[0]
    assert request.system[0].text == "You are billing."
    assert [spec.name for spec in request.tools] == ["look"]
    assert request.messages[-1].results[0].text == "billing continues the conversation. VAT."
    assert only(HandedOver, events) == [HandedOver("triage", "billing")]
    noted = [handed_to(event.message) for event in only(MessageCommitted, events)]
    assert noted.count("billing") == 1


async def test_a_later_run_continues_with_the_agent_that_has_the_conversation() -> None:
    other = billing("Right.", "Gladly.")
    first = triage(other)
    result = await first.run("My invoice?")
    again = await first.run("Thanks.", history=load(dump(result.history)))
    assert again.text == "Gladly."
    assert len(requests_of(other)) == 2
    alone = scripted(["Hello."], name="third")
    assert (await alone.run("?", history=result.history)).text == "Hello."


async def test_the_model_reads_which_agents_there_are() -> None:
    tool = handoff([billing("."), "sales"])
    assert "- billing: Invoices.\n- sales" in tool.description
    assert tool.arguments.schema["properties"]["agent"]["enum"] == ["billing", "sales"]


async def test_agents_that_pass_a_question_back_and_forth_are_stopped() -> None:
    back = [call("handoff", agent="triage") for _ in range(3)]
    there = [call("handoff", agent="billing") for _ in range(3)]
    other = scripted([*back, "I answer."], handoff(["triage"], limit=4), name="billing")
    first = scripted([*there, "I answer."], handoff([other], limit=4), name="triage")
    result = await first.run("?")
    assert result.text == "I answer."
    outcomes = [made.outcome for made in results_in(result.history)]
    assert outcomes == ["ok"] * 4 + ["failed"]


async def test_a_handoff_is_alone_in_its_message() -> None:
    other = billing("Right.")
    script = [[call("act"), call("handoff", agent="billing")], "I stay."]
    first = scripted(script, handoff([other]), act, name="triage")
    result = await first.run("?")
    assert result.text == "I stay."
    assert {made.outcome for made in results_in(result.history)} == {"refused"}


async def test_an_interrupt_during_the_new_agent_keeps_the_handoff() -> None:
    other = billing(call("look", seconds=100), "Right.")
    run = triage(other).run("?")
    asyncio.get_running_loop().call_later(5, run.interrupt)
    result = await run
    assert result.reason == "interrupted"
    assert any(handed_to(message) == "billing" for message in result.history)


async def test_the_output_type_is_that_of_the_agent_that_answers() -> None:
    other = billing('{"n": 3}', output=dict[str, int])
    assert (await triage(other).run("?")).output == {"n": 3}


async def test_a_name_that_no_agent_of_the_run_has_is_refused() -> None:
    agent = scripted([], handoff(["nobody"]), name="triage")
    with pytest.raises(ConfigError, match="can hand over to nobody, which no agent"):
        agent.run("?")


@pytest.mark.parametrize("to", ["billing", [], [7], ["a", "a"]])
def test_targets_of_the_wrong_form_are_refused(to: Any) -> None:
    with pytest.raises(ConfigError, match=r"^to "):
        handoff(to)
