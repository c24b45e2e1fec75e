"""Calls that somebody outside must agree to, answer, or be alone for."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Agent, RunResult, Tool, approve, tool
from holdfast.errors import ConfigError
from holdfast.events import Action
from holdfast.hooks import Approved, Context, Deny, Rewrite
from holdfast.kernel.approval import canonical, digest
from holdfast.kernel.events import RunEnded, ToolFinished, ToolStarted
from holdfast.kernel.tool import Values
from holdfast.messages import Text, ToolCall, ToolResult, dump, load
from holdfast.testing import ScriptedModel, call, call_raw
from tests.kernel.runs import only
from tests.kernel.toolkit import agent_for, assert_valid, finished, outcomes, results_in, watched


def pay_tool(paid: list[tuple[str, int]], **properties: Any) -> Tool:
    async def pay(to: str, amount: int) -> str:
        paid.append((to, amount))
        return "paid"

    return tool(name="pay", **{"approval": "ask", **properties})(pay)


ANNE = call("pay", to="Anne", amount=5)


async def asked(agent: Agent) -> tuple[RunResult, Action]:
    """A run that stops at the one call that it has to ask about."""
    result = await agent.run("Pay.")
    assert result.reason == "requires_action"
    (action,) = result.actions
    return result, action


async def resolved(agent: Agent, before: RunResult, resolution: object) -> RunResult:
    (action,) = before.actions
    after = await agent.replace(model=ScriptedModel(["Done."])).run(
        history=before.history, resolve={action.call.id: resolution}
    )
    if after.reason == "stop":
        assert_valid(after.history)
    return after


# --- asking -------------------------------------------------------------------------------------


async def test_a_call_that_must_be_approved_waits_and_is_not_run() -> None:
    paid: list[tuple[str, int]] = []
    events, result = await watched(agent_for([ANNE], pay_tool(paid)).run("Pay."))

    assert paid == []
    assert result.reason == "requires_action"
    (action,) = result.actions
    assert action.kind == "approval"
    assert action.call == result.history[1].calls[0]
    assert action.arguments == '{"amount":5,"to":"Anne"}'
    assert not only(ToolStarted, events)
    assert not only(ToolFinished, events)
    ended = events[-1]
    assert isinstance(ended, RunEnded)
    assert ended.actions == result.actions


async def test_a_call_runs_once_it_is_approved() -> None:
    paid: list[tuple[str, int]] = []
    agent = agent_for([ANNE], pay_tool(paid))
    before, action = await asked(agent)

    after = await resolved(agent, before, approve(action))

    assert paid == [("Anne", 5)]
    (made,) = results_in(after.history)
    assert (made.outcome, made.text) == ("ok", "paid")
    assert after.text == "Done."


async def test_a_call_that_is_denied_is_refused_with_the_reason() -> None:
    paid: list[tuple[str, int]] = []
    agent = agent_for([ANNE], pay_tool(paid))
    before, _ = await asked(agent)

    after = await resolved(agent, before, Deny("not this month"))

    (made,) = results_in(after.history)
    assert (made.outcome, paid) == ("refused", [])
    assert "not this month" in made.text


async def test_a_denied_call_is_shown_as_finished() -> None:
    agent = agent_for([ANNE], pay_tool([]))
    before, _ = await asked(agent)
    run = agent.replace(model=ScriptedModel(["Done."])).run(
        history=before.history, resolve={"call_1": Deny()}
    )
    events, _ = await watched(run)
    assert finished(events) == [("call_1", "refused")]


@pytest.mark.parametrize(("amount", "asks"), [(5, False), (500, True)])
async def test_whether_to_ask_may_depend_on_the_arguments(amount: int, asks: bool) -> None:
    paid: list[tuple[str, int]] = []
    pay = pay_tool(paid, approval=lambda values: values["amount"] > 100)

    result = await agent_for([call("pay", to="Anne", amount=amount), "."], pay).run("Pay.")

    assert (result.reason == "requires_action") == asks
    assert bool(paid) != asks


async def test_a_question_that_raises_runs_nothing() -> None:
    def unsure(values: Values) -> bool:
        raise LookupError("who is Anne?")

    paid: list[tuple[str, int]] = []
    result = await agent_for([ANNE, "."], pay_tool(paid, approval=unsure)).run("Pay.")

    (made,) = results_in(result.history)
    assert (made.outcome, paid) == ("failed", [])
    assert "who is Anne?" in made.text


async def test_a_call_that_never_asks_is_not_asked_about() -> None:
    paid: list[tuple[str, int]] = []
    result = await agent_for([ANNE, "."], pay_tool(paid, approval="never")).run("Pay.")
    assert (result.reason, paid) == ("stop", [("Anne", 5)])


async def test_arguments_that_do_not_fit_are_not_asked_about() -> None:
    result = await agent_for([call("pay", to="Anne"), "Oh."], pay_tool([])).run("Pay.")
    assert result.reason == "stop"
    assert outcomes(result.history) == ["failed"]


async def test_what_the_gate_denies_is_not_asked_about() -> None:
    agent = agent_for([ANNE, "Oh."], pay_tool([]), gate=lambda context, call, values: Deny("no"))
    result = await agent.run("Pay.")
    assert outcomes(result.history) == ["refused"]


async def test_the_preview_goes_with_the_question() -> None:
    def preview(values: Values) -> str:
        return f"{values['amount']} to {values['to']}"

    _, action = await asked(agent_for([ANNE], pay_tool([], preview=preview)))
    assert action.preview == "5 to Anne"


async def test_calls_beside_one_that_waits_are_run_and_their_results_kept() -> None:
    @tool(effect="pure")
    async def look() -> str:
        return "seen"

    paid: list[tuple[str, int]] = []
    agent = agent_for([[call("look"), ANNE, call("look")]], pay_tool(paid), look)
    before, action = await asked(agent)
    assert [made.call_id for made in results_in(before.history)] == ["call_1", "call_3"]

    after = await resolved(agent, before, approve(action))

    assert outcomes(after.history) == ["ok"] * 3
    assert paid == [("Anne", 5)]


async def test_of_two_questions_one_may_be_answered_first() -> None:
    paid: list[tuple[str, int]] = []
    agent = agent_for([[ANNE, call("pay", to="Bob", amount=6)]], pay_tool(paid))
    first = await agent.run("Pay.")
    anne, bob = first.actions

    second = await agent.run(history=first.history, resolve={bob.call.id: approve(bob)})
    assert paid == [("Bob", 6)]
    assert second.reason == "requires_action"
    assert second.actions == (anne,)

    third = await resolved(agent, second, approve(anne))
    assert paid == [("Bob", 6), ("Anne", 5)]
    assert third.reason == "stop"


async def test_a_new_prompt_skips_what_still_waits() -> None:
    paid: list[tuple[str, int]] = []
    agent = agent_for([ANNE], pay_tool(paid))
    before, _ = await asked(agent)

    after = await agent.replace(model=ScriptedModel(["All right."])).run(
        "Forget it.", history=before.history
    )

    assert paid == []
    assert outcomes(after.history) == ["skipped"]
    assert after.text == "All right."
    assert_valid(after.history)


async def test_a_resolution_for_no_waiting_call_is_an_error_of_the_caller() -> None:
    agent = agent_for([ANNE], pay_tool([]))
    before, action = await asked(agent)
    with pytest.raises(ConfigError, match="call_1"):
        agent.run(history=before.history, resolve={"call_9": approve(action)})


# --- what an approval is bound to ---------------------------------------------------------------


async def test_an_approval_is_bound_to_call_tool_and_arguments() -> None:
    _, action = await asked(agent_for([ANNE], pay_tool([])))

    stated = json.dumps(["call_1", "pay", '{"amount":5,"to":"Anne"}'], separators=(",", ":"))
    assert action.digest == hashlib.sha256(stated.encode()).hexdigest()


@pytest.mark.parametrize(
    "other",
    [("call_2", "pay", "{}"), ("call_1", "pai", "{}"), ("call_1", "pay", '{"amount":1}')],
)
def test_each_of_the_three_changes_the_digest(other: tuple[str, str, str]) -> None:
    assert digest("call_1", "pay", "{}") != digest(*other)


def test_the_three_cannot_flow_into_one_another() -> None:
    assert digest("a", "bc", "d") != digest("ab", "c", "d") != digest("a", "b", "cd")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


def reordered(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: reordered(value[key]) for key in reversed(value)}
    return [reordered(item) for item in value] if isinstance(value, list) else value


@given(value=JSON)
def test_the_order_of_keys_does_not_matter_and_the_value_does(value: Any) -> None:
    assert canonical(value) == canonical(reordered(value))
    assert canonical(value) != canonical([value])
    assert json.loads(canonical(value)) == value


@pytest.mark.parametrize("odd", ["\0", "\ue000", "\ue0000041", "\ud800", "\udfff🎉"])
async def test_what_an_action_shows_is_json_of_what_would_be_run(odd: str) -> None:
    """So that a client gets what the model wrote, and a change changes nothing else."""
    ran: list[str] = []

    @tool(approval="ask")
    async def note(text: str, title: str) -> str:
        """Note it."""
        ran.append(text)
        return "noted"

    arguments = json.dumps({"text": odd, "title": "a"})
    agent = agent_for([call_raw("note", arguments), "Done."], note)
    first = await agent.run("Go.")
    (action,) = first.actions

    shown = json.loads(action.arguments)
    changed = approve(action, {**shown, "title": "b"})
    await agent.run(history=load(dump(first.history)), resolve={action.call.id: changed})

    assert shown == {"text": odd, "title": "a"}
    assert ran == [odd]


@pytest.mark.parametrize(
    "text",
    [
        '{"to": "Anne", "amount": 5}',
        '{"amount":5,"to":"Anne"}',
        '{"amount": "5", "to": "Anne"}',
        '{"amount": 5.0, "to": "\\u0041nne"}',
    ],
)
async def test_the_same_arguments_written_differently_have_the_same_digest(text: str) -> None:
    _, action = await asked(agent_for([call_raw("pay", text)], pay_tool([])))
    assert action.arguments == '{"amount":5,"to":"Anne"}'


async def test_an_approval_is_of_what_the_gate_made_of_the_arguments() -> None:
    paid: list[tuple[str, int]] = []
    agent = agent_for(
        [ANNE], pay_tool(paid), gate=lambda context, call, values: Rewrite({**values, "amount": 1})
    )
    before, action = await asked(agent)
    assert action.arguments == '{"amount":1,"to":"Anne"}'

    await resolved(agent, before, approve(action))

    assert paid == [("Anne", 1)]


async def test_an_approval_of_other_arguments_asks_again() -> None:
    """The gate changed its mind between the question and the run."""
    paid: list[tuple[str, int]] = []
    agent = agent_for([ANNE], pay_tool(paid))
    before, action = await asked(agent)

    changed = agent.replace(gate=lambda context, call, values: Rewrite({**values, "amount": 6}))
    again = await changed.run(history=before.history, resolve={"call_1": approve(action)})

    assert paid == []
    assert again.reason == "requires_action"
    (new,) = again.actions
    assert new.arguments == '{"amount":6,"to":"Anne"}'
    assert new.digest != action.digest
    await resolved(changed, again, approve(new))
    assert paid == [("Anne", 6)]


async def test_a_made_up_digest_approves_nothing() -> None:
    paid: list[tuple[str, int]] = []
    agent = agent_for([ANNE], pay_tool(paid))
    before, _ = await asked(agent)
    again = await resolved(agent, before, Approved("0" * 64))
    assert (again.reason, paid) == ("requires_action", [])


async def test_an_approval_of_one_call_is_none_of_another() -> None:
    paid: list[tuple[str, int]] = []
    agent = agent_for([[ANNE, ANNE]], pay_tool(paid))
    first = await agent.run("Pay.")
    one, _ = first.actions

    again = await agent.run(history=first.history, resolve={"call_2": approve(one)})

    assert (again.reason, paid) == ("requires_action", [])


async def test_the_gate_may_deny_what_a_person_approved() -> None:
    paid: list[tuple[str, int]] = []
    agent = agent_for([ANNE], pay_tool(paid))
    before, action = await asked(agent)

    strict = agent.replace(gate=lambda context, call, values: Deny("frozen"))
    after = await resolved(strict, before, approve(action))

    assert (outcomes(after.history), paid) == (["refused"], [])


@pytest.mark.parametrize("amount", [2**63, 10**40, -(10**40)])
async def test_whole_numbers_of_any_size_can_be_approved(amount: int) -> None:
    paid: list[tuple[str, int]] = []
    agent = agent_for([call_raw("pay", f'{{"to": "Anne", "amount": {amount}}}')], pay_tool(paid))
    before, action = await asked(agent)
    await resolved(agent, before, approve(action))
    assert paid == [("Anne", amount)]


@pytest.mark.parametrize("to", ["\x00", "\ud800", "\ue000d800", "🦔"])
async def test_any_text_can_be_approved(to: str) -> None:
    paid: list[tuple[str, int]] = []
    agent = agent_for([call_raw("pay", json.dumps({"to": to, "amount": 1}))], pay_tool(paid))
    before, action = await asked(agent)
    await resolved(agent, before, approve(action))
    assert paid == [(to, 1)]


# --- allow with changed arguments ---------------------------------------------------------------


async def changed_to(
    arguments: Mapping[str, object], paid: list[tuple[str, int]], **options: Any
) -> RunResult:
    agent = agent_for([ANNE], pay_tool(paid, **options.pop("properties", {})), **options)
    before, action = await asked(agent)
    return await resolved(agent, before, approve(action, arguments))


async def test_a_person_may_change_the_arguments_and_the_model_is_told() -> None:
    paid: list[tuple[str, int]] = []
    after = await changed_to({"to": "Anne", "amount": "4"}, paid)

    assert paid == [("Anne", 4)]
    (made,) = results_in(after.history)
    assert made.outcome == "ok"
    assert '{"amount":4,"to":"Anne"}' in made.text
    assert "paid" in made.text
    assert after.history[1].calls[0].arguments == '{"to":"Anne","amount":5}'


@pytest.mark.parametrize("returned", ["short", "y" * 5_000])
async def test_what_is_said_about_the_change_counts_as_part_of_the_result(returned: str) -> None:
    @tool(name="pay", approval="ask", max_result=1_000)
    async def pay(to: str, amount: int) -> str:
        return returned

    agent = agent_for([ANNE], pay)
    before, action = await asked(agent)
    after = await resolved(agent, before, approve(action, {"to": "é" * 2_000, "amount": 1}))

    (made,) = results_in(after.history)
    assert len(made.text.encode()) <= 1_000
    assert made.text.startswith("[A person changed the arguments")
    assert made.text.endswith(returned[-5:])


async def test_changed_arguments_that_do_not_fit_are_refused_to_whoever_changed_them() -> None:
    paid: list[tuple[str, int]] = []
    with pytest.raises(ConfigError, match=r'do not fit.*\n.*amount: .* got "a lot"'):
        await changed_to({"to": "Anne", "amount": "a lot"}, paid)
    assert paid == []


async def test_changed_arguments_pass_the_validate_hook() -> None:
    paid: list[tuple[str, int]] = []

    def positive(values: Values) -> str | None:
        return None if values["amount"] > 0 else "nothing to pay"

    after = await changed_to({"to": "Anne", "amount": -1}, paid, properties={"validate": positive})

    (made,) = results_in(after.history)
    assert (made.outcome, paid) == ("failed", [])
    assert "nothing to pay" in made.text


def at_most_ten(_context: Context, call: ToolCall, values: Values) -> Rewrite:
    return Rewrite({**values, "amount": min(values["amount"], 10)})


async def test_the_gate_does_not_change_what_a_person_set() -> None:
    paid: list[tuple[str, int]] = []
    after = await changed_to({"to": "Anne", "amount": 20}, paid, gate=at_most_ten)
    assert (outcomes(after.history), paid) == (["refused"], [])


async def test_a_gate_that_rewrites_to_the_same_lets_what_a_person_set_pass() -> None:
    paid: list[tuple[str, int]] = []
    after = await changed_to({"to": "Anne", "amount": 7}, paid, gate=at_most_ten)
    assert (outcomes(after.history), paid) == (["ok"], [("Anne", 7)])


async def test_changed_arguments_need_the_digest_of_the_question_too() -> None:
    paid: list[tuple[str, int]] = []
    agent = agent_for([ANNE], pay_tool(paid))
    before, _ = await asked(agent)
    again = await resolved(agent, before, Approved("0" * 64, {"to": "Bob", "amount": 9}))
    assert (again.reason, paid) == ("requires_action", [])


# --- the client's tools -------------------------------------------------------------------------


def pick_tool(**properties: Any) -> Tool:
    schema = {"type": "object", "properties": {"from": {"type": "string"}}, "required": ["from"]}
    return Tool(name="pick", schema=schema, **properties)


PICK = call("pick", **{"from": "red, blue"})


@pytest.mark.parametrize(
    ("action", "kind"), [(None, "client"), ("answer", "answer"), ("child", "child")]
)
async def test_a_call_that_is_not_ours_to_run_waits(action: Any, kind: str) -> None:
    _, asks = await asked(agent_for([PICK], pick_tool(action=action)))
    assert (asks.kind, asks.arguments) == (kind, '{"from":"red, blue"}')


@pytest.mark.parametrize(
    ("given", "outcome", "text"),
    [
        ("red", "ok", "red"),
        ({"colour": "red"}, "ok", '{"colour":"red"}'),
        (None, "ok", "done"),
        (ToolResult("x", "y", (Text("none left"),), "failed"), "failed", "none left"),
    ],
)
async def test_the_client_s_answer_is_the_result(given: Any, outcome: str, text: str) -> None:
    agent = agent_for([PICK], pick_tool())
    before, _ = await asked(agent)

    after = await resolved(agent, before, given)

    (made,) = results_in(after.history)
    assert (made.call_id, made.tool) == ("call_1", "pick")
    assert (made.outcome, made.text) == (outcome, text)


async def test_the_client_s_answer_is_shown_as_finished_once() -> None:
    agent = agent_for([PICK], pick_tool())
    before, _ = await asked(agent)
    run = agent.replace(model=ScriptedModel(["Done."])).run(
        history=before.history, resolve={"call_1": "red"}
    )
    events, _ = await watched(run)
    assert finished(events) == [("call_1", "ok")]


async def test_a_long_answer_of_the_client_is_cut_like_any_result() -> None:
    agent = agent_for([PICK], pick_tool(max_result=1_000))
    before, _ = await asked(agent)
    after = await resolved(agent, before, "x" * 5_000)
    (made,) = results_in(after.history)
    assert len(made.text) <= 1_000
    assert "cut" in made.text


async def test_an_answer_of_the_client_that_is_no_json_is_an_error_of_the_caller() -> None:
    agent = agent_for([PICK], pick_tool())
    before, _ = await asked(agent)
    with pytest.raises(ConfigError, match="object"):
        agent.run(history=before.history, resolve={"call_1": object()})


async def test_the_client_is_not_asked_about_arguments_that_do_not_fit() -> None:
    result = await agent_for([call("pick"), "Oh."], pick_tool()).run("Go.")
    (made,) = results_in(result.history)
    assert made.outcome == "failed"
    assert "from" in made.text


async def test_a_client_s_tool_that_ends_the_turn_ends_it_with_the_answer() -> None:
    agent = agent_for([PICK], pick_tool(stop_after=True))
    before, _ = await asked(agent)
    after = await agent.run(history=before.history, resolve={"call_1": "red"})
    assert after.reason == "stop_after_tool"


# --- exclusive tools ----------------------------------------------------------------------------


def plan_tool(ran: list[str], name: str = "plan") -> Tool:
    async def plan() -> str:
        ran.append(name)
        return "planned"

    return tool(name=name, exclusive=True)(plan)


async def test_an_exclusive_tool_runs_alone() -> None:
    ran: list[str] = []
    result = await agent_for([call("plan"), "."], plan_tool(ran)).run("Go.")
    assert (outcomes(result.history), ran) == (["ok"], ["plan"])


async def test_beside_an_exclusive_tool_nothing_runs_and_each_call_is_told_why() -> None:
    ran: list[str] = []
    paid: list[tuple[str, int]] = []

    @tool(effect="pure")
    async def look() -> str:
        ran.append("look")
        return "seen"

    script = [[call("missing"), ANNE, PICK, call("plan"), call("look")], "."]
    agent = agent_for(script, plan_tool(ran), pay_tool(paid), pick_tool(), look)

    events, result = await watched(agent.run("Go."))

    assert not ran
    assert not paid
    assert outcomes(result.history) == ["refused"] * 5
    assert finished(events) == [(f"call_{n}", "refused") for n in range(1, 6)]
    texts = [made.text for made in results_in(result.history)]
    assert "alone" in texts[3]
    for other in (*texts[:3], texts[4]):
        assert "plan" in other
        assert "without it" in other


async def test_of_two_exclusive_tools_each_is_told_to_come_alone() -> None:
    ran: list[str] = []
    script = [[call("plan"), call("ask")], "."]
    result = await agent_for(script, plan_tool(ran), plan_tool(ran, "ask")).run("Go.")
    assert ran == []
    for made in results_in(result.history):
        assert f"{made.tool} must be the only call" in made.text


async def test_two_calls_of_one_exclusive_tool_are_not_alone_either() -> None:
    ran: list[str] = []
    result = await agent_for([[call("plan"), call("plan")], "."], plan_tool(ran)).run("Go.")
    assert (outcomes(result.history), ran) == (["refused"] * 2, [])


async def test_a_refusal_for_company_is_no_failure_of_the_tool() -> None:
    ran: list[str] = []
    script = [*[[call("plan"), call("plan")]] * 4, call("plan"), "."]
    result = await agent_for(script, plan_tool(ran)).run("Go.")
    assert outcomes(result.history)[-1] == "ok"


async def test_a_provider_s_own_call_is_no_company() -> None:
    ran: list[str] = []
    script = [[call_raw("web", "{}", provider_executed=True), call("plan")], "."]
    result = await agent_for(script, plan_tool(ran)).run("Go.")
    assert (outcomes(result.history), ran) == (["ok"], ["plan"])


# --- stop_after ---------------------------------------------------------------------------------


async def ended_by(stop_after: bool | Callable[[ToolResult], bool], **arguments: Any) -> str:
    @tool(stop_after=stop_after)
    async def submit(works: bool = True) -> str:
        if not works:
            raise ValueError("not yet")
        return "submitted"

    model = ScriptedModel([call("submit", **arguments), "Anything else?"])
    result = await Agent(model=model, tools=[submit]).run("Go.")
    assert model.left == (1 if result.reason == "stop_after_tool" else 0)
    return result.reason


async def test_the_success_of_a_stop_after_tool_ends_the_turn() -> None:
    assert await ended_by(True) == "stop_after_tool"


async def test_the_failure_of_a_stop_after_tool_does_not_end_the_turn() -> None:
    assert await ended_by(True, works=False) == "stop"


async def test_whether_to_stop_may_depend_on_the_result() -> None:
    assert await ended_by(lambda result: result.text == "submitted") == "stop_after_tool"
    assert await ended_by(lambda result: result.text == "other") == "stop"


async def test_a_question_about_stopping_that_raises_counts_as_no() -> None:
    def unsure(result: ToolResult) -> bool:
        raise KeyError("x")

    assert await ended_by(unsure) == "stop"


async def test_a_stop_after_tool_ends_the_turn_also_when_it_is_one_of_several() -> None:
    @tool(stop_after=True)
    async def submit() -> str:
        return "submitted"

    @tool
    async def fail_now() -> None:
        raise ValueError("oh")

    result = await agent_for([[call("submit"), call("fail_now")]], submit, fail_now).run("Go.")
    assert result.reason == "stop_after_tool"
    assert outcomes(result.history) == ["ok", "failed"]


async def test_nobody_who_looks_at_the_arguments_can_change_what_runs() -> None:
    ran: list[list[str]] = []

    def meddle(values: Values) -> str:
        values["paths"].append("/etc")
        return "fine"

    @tool(describe=meddle, preview=meddle, validate=lambda values: meddle(values) and None)
    async def remove(paths: list[str]) -> str:
        """Remove files."""
        ran.append(paths)
        return "removed"

    def gate(_context: Context, asked: ToolCall, values: Values) -> None:
        meddle(values)

    model = ScriptedModel([call("remove", paths=["a"]), "Done."])
    await Agent(model=model, tools=[remove], gate=gate).run("Go.")
    assert ran == [["a"]]


async def test_a_prompt_beside_an_approval_is_refused_rather_than_skipping_the_call() -> None:
    @tool(approval="ask")
    async def act() -> str:
        """Act."""
        return "done"

    agent = Agent(model=ScriptedModel([call("act"), "Done."]), tools=[act])
    first = await agent.run("Go.")
    answers = {"call_1": approve(first.actions[0])}
    with pytest.raises(ConfigError, match="resolve first"):
        agent.run("And hurry.", history=first.history, resolve=answers)
