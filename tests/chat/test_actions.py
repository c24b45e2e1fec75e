"""Calls that wait for somebody outside: answered one by one or many, once, and not by chance."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.chat.errors import Fenced, NothingWaits, TransitionNotAllowed, WrongAnswer
from holdfast.chat.journal import NO_RESULT_TEXT
from holdfast.chat.queries import read_actions
from holdfast.chat.rows import Fence, Rule, Status, fence_of
from holdfast.chat.transitions import runner, user
from holdfast.kernel.decide import Approved, Recorded
from tests.chat.chats import (
    ME,
    Chats,
    answer,
    approval,
    asks,
    given_result,
    made,
    prompt,
    row_of_call,
)

# --- resolve ---


async def test_actions_are_answered_one_by_one_and_the_last_sets_the_chat_running(
    chats: Chats,
) -> None:
    await chats.requires_action("c1", calls={"a": None, "b": None})
    first = await chats.do(user.resolve, "c1", {"b": given_result("b")})
    assert first.status is Status.REQUIRES_ACTION
    assert [call.call_id for call in await chats.ask(read_actions, "c1")] == ["a"]
    assert (await chats.texts())[2:] == ["b=ok"]
    last = await chats.do(user.resolve, "c1", {"a": given_result("a")})
    assert (last.status, last.deadline) == (Status.RUNNING, None)
    assert (await chats.texts())[2:] == ["b=ok", "a=ok"]
    assert (await chats.load()).journal == {}


async def test_many_actions_are_answered_at_once_in_the_order_of_their_calls(
    chats: Chats,
) -> None:
    await chats.requires_action("c1", calls={"a": None, "b": None, "c": None})
    chat = await chats.do(user.resolve, "c1", {"c": given_result("c"), "a": given_result("a")})
    assert chat.status is Status.REQUIRES_ACTION
    assert (await chats.texts())[2:] == ["a=ok c=ok"]


@pytest.mark.parametrize(
    ("answers", "asked", "told"),
    [
        ({"x": given_result("x")}, ("x",), "no action waits for x; waiting: b"),
        (
            {"b": given_result("b"), "x": given_result("x")},
            ("x",),
            "no action waits for x; waiting: b",
        ),
        ({"a": given_result("a")}, ("a",), "no action waits for a; waiting: b"),
        ({}, (), "no answer is given; waiting: b"),
    ],
    ids=["unknown", "one of them unknown", "already resolved", "none"],
)
async def test_what_does_not_wait_cannot_be_answered_and_nothing_is_changed(
    chats: Chats, answers: Any, asked: tuple[str, ...], told: str
) -> None:
    await chats.requires_action("c1", calls={"a": None, "b": None})
    await chats.do(user.resolve, "c1", {"a": given_result("a")})
    before = await chats.everything()
    with pytest.raises(NothingWaits) as refusal:
        await chats.do(user.resolve, "c1", answers)
    assert (refusal.value.asked, refusal.value.waiting) == (asked, ("b",))
    assert str(refusal.value) == told
    assert await chats.everything() == before


@pytest.mark.parametrize(
    ("action", "given"),
    [
        ("client", approval("b")),
        ("approval", Approved("digest of something else")),
        ("client", Recorded(made("a"))),
    ],
    ids=["an approval for a result", "other arguments", "the result of another call"],
)
async def test_a_wrong_answer_is_refused_and_none_of_the_others_is_taken(
    chats: Chats, action: Any, given: Any
) -> None:
    await chats.requires_action("c1", action=action)
    before = await chats.everything()
    with pytest.raises(WrongAnswer) as refusal:
        await chats.do(user.resolve, "c1", {"a": given_result("a"), "b": given})
    assert refusal.value.call_id == "b"
    assert await chats.everything() == before


async def test_an_approved_call_runs_although_others_still_wait(chats: Chats) -> None:
    await chats.requires_action("c1", action="approval")
    rule = Rule("work", "{}")
    chat = await chats.do(user.resolve, "c1", {"a": approval("a")}, rule)
    assert (chat.status, chat.rules) == (Status.RUNNING, (rule,))
    journal = (await chats.load()).journal
    assert (journal["a"].state, journal["a"].approved) == ("approved", approval("a"))
    assert journal["b"].state == "waiting"
    assert await chats.texts() == ["hello", "let me ask ?a ?b"]


async def test_a_person_may_refuse_what_asks_for_approval(chats: Chats) -> None:
    await chats.requires_action("c1", calls={"a": None}, action="approval")
    no = Recorded(made("a", "no", "refused"))
    assert (await chats.do(user.resolve, "c1", {"a": no})).status is Status.RUNNING
    assert (await chats.texts())[2:] == ["a=refused"]


async def test_an_answer_is_taken_also_when_another_worker_has_the_chat_by_now(
    chats: Chats,
) -> None:
    chat = await chats.running("c1", calls={"a": "waiting", "b": "open", "c": "approved"})
    await chats.do(runner.release, fence_of(chat))
    assert await chats.claim(worker="w2") == ["c1"]
    await chats.do(user.resolve, "c1", {"a": given_result("a")})
    journal = (await chats.load()).journal
    assert (journal["a"].state, journal["a"].epoch) == ("finished", None)


@pytest.mark.parametrize("action", ["client", "approval"])
async def test_an_answer_in_a_running_chat_disturbs_no_step(chats: Chats, action: Any) -> None:
    chat = await chats.running("c1")
    await chats.commit("c1", answer("both", asks("a"), asks("b")))
    chat = await chats.row()
    row = row_of_call(chat, "b", "waiting", action=action)
    started = await chats.do(
        runner.start_calls, fence_of(chat), [row_of_call(chat, "a", "started"), row]
    )
    given = given_result("b") if action == "client" else approval("b")
    answered = await chats.do(user.resolve, "c1", {"b": given})
    assert fence_of(answered) == started.fence
    assert (answered.status, answered.history_version) == (Status.RUNNING, chat.history_version)
    outcome = runner.Outcome(results=(made("a"),))
    await chats.do(runner.commit_step, started.fence, outcome)
    expected = ["a=ok b=ok"] if action == "client" else ["a=ok"]
    assert (await chats.texts())[2:] == expected


async def test_an_accepted_answer_is_not_overwritten_by_a_step_that_did_not_know_of_it(
    chats: Chats,
) -> None:
    chat = await chats.running("c1", calls={"a": "started", "b": "waiting"})
    await chats.do(user.resolve, "c1", {"b": given_result("b", "the person's own words")})
    own = (made("a"), made("b", "skipped", "skipped"))
    await chats.do(runner.commit_step, fence_of(chat), runner.Outcome(results=own))
    (results,) = (s.message.results for s in (await chats.history())[2:])
    assert [r.text for r in results] == ["done", "the person's own words"]


# --- require action ---


async def waits_for_all(chats: Chats, fence: Fence, *calls: str, **more: Any) -> Status:
    chat = await chats.row()
    rows = [row_of_call(chat, call, "waiting", number=2) for call in calls]
    return (await chats.do(runner.require_action, fence, rows, **more)).chat.status


async def test_a_chat_rests_with_the_earliest_deadline_when_all_its_calls_wait(
    chats: Chats,
) -> None:
    chat = await chats.requires_action("c1", calls={"a": 30, "b": None, "c": 20})
    assert (chat.deadline, chat.worker_id) == (chats.after(20), None)
    assert chats.take_notices()[-1:] != []
    assert await chats.claim("urgent") == []


async def test_a_chat_does_not_rest_when_an_answer_came_before_it_could(chats: Chats) -> None:
    chat = await chats.running("c1", calls={"a": "waiting", "b": "waiting"})
    await chats.do(user.resolve, "c1", {"a": given_result("a")})
    assert await waits_for_all(chats, fence_of(chat), "a", "b") is Status.RUNNING
    journal = (await chats.load()).journal
    assert (journal["a"].state, journal["b"].state) == ("finished", "waiting")
    assert (await chats.row()).worker_id == ME


@pytest.mark.parametrize("state", ["open", "approved", "recorded", "started"])
async def test_a_chat_does_not_rest_while_a_call_may_run_or_be_taken(
    chats: Chats, state: Any
) -> None:
    chat = await chats.running("c1", calls={"a": state, "b": "waiting"})
    assert await waits_for_all(chats, fence_of(chat), "b") is Status.RUNNING


async def test_a_chat_does_not_rest_while_a_message_wants_to_steer_it(chats: Chats) -> None:
    chat = await chats.running("c1", calls={"a": "waiting"}, queue=("steer",))
    assert await waits_for_all(chats, fence_of(chat), "a") is Status.RUNNING
    await chats.running("c2", calls={"a": "waiting"}, queue=("queue",))
    fence = fence_of(await chats.row("c2"))
    assert (await chats.do(runner.require_action, fence, [])).chat.status is (
        Status.REQUIRES_ACTION
    )


# --- expire ---


async def test_only_actions_whose_deadline_has_passed_expire(chats: Chats) -> None:
    await chats.requires_action("c1", calls={"a": 10, "b": 20, "c": None})
    chats.clock.advance(9.9)
    assert await chats.claim("urgent") == []
    chats.clock.advance(0.1)
    assert await chats.claim("urgent") == ["c1"]
    advanced = await chats.do(runner.expire, fence_of(await chats.row()))
    assert (advanced.chat.status, advanced.chat.worker_id) == (Status.REQUIRES_ACTION, None)
    assert advanced.chat.deadline == chats.after(10)
    assert (await chats.texts())[2:] == ["a=timed_out"]
    assert [s.message.results[0].text for s in advanced.appended] == [NO_RESULT_TEXT["timed_out"]]
    assert sorted((await chats.load()).journal) == ["b", "c"]
    assert await chats.claim("urgent") == []


async def test_a_chat_goes_on_when_its_last_action_expires(chats: Chats) -> None:
    chat = await chats.requires_action("c1", calls={"a": 10, "b": 10}, owned=True)
    advanced = await chats.do(runner.expire, fence_of(chat))
    assert (advanced.chat.status, advanced.chat.worker_id) == (Status.RUNNING, ME)
    assert (await chats.texts())[2:] == ["a=timed_out b=timed_out"]


async def test_an_action_without_a_deadline_waits_for_ever(chats: Chats) -> None:
    await chats.requires_action("c1", calls={"a": None})
    chats.clock.advance(365 * 24 * 3600)
    assert await chats.claim("urgent") == []
    await chats.do(user.resolve, "c1", {"a": given_result("a")})


async def test_nobody_answers_what_has_expired(chats: Chats) -> None:
    chat = await chats.requires_action("c1", calls={"a": 10, "b": None}, owned=True)
    await chats.do(runner.expire, fence_of(chat))
    with pytest.raises(NothingWaits):
        await chats.do(user.resolve, "c1", {"a": given_result("a")})


async def test_expiring_when_nothing_is_due_lets_the_chat_rest_on(chats: Chats) -> None:
    chat = await chats.requires_action("c1", owned=True)
    answered = await chats.do(user.resolve, "c1", {"a": given_result("a")})
    assert answered.status is Status.REQUIRES_ACTION
    with pytest.raises(Fenced):
        await chats.do(runner.expire, fence_of(chat))  # the history is another
    advanced = await chats.do(runner.expire, fence_of(answered))
    assert (advanced.chat.status, advanced.chat.worker_id) == (Status.REQUIRES_ACTION, None)
    assert (await chats.texts())[2:] == ["a=ok"]


@pytest.mark.parametrize("change", ["title", "message"])
async def test_a_worker_keeps_a_chat_whose_action_is_due_whatever_people_do_to_it(
    chats: Chats, change: str
) -> None:
    chat = await chats.requires_action("c1", owned=True)
    if change == "title":
        await chats.do(user.update, "c1", {"title": "Mine"})
    else:
        await chats.send("c1", "later")
    assert (await chats.row()).worker_id == ME
    assert (await chats.do(runner.expire, fence_of(chat))).appended != ()


# --- what voids an action ---


async def test_an_approval_is_void_after_an_edit_an_interrupt_or_a_new_message(
    chats: Chats,
) -> None:
    async def edits(id: str) -> None:
        await chats.do(user.edit, id, 1, prompt("else"))

    async def interrupts(id: str) -> None:
        await chats.do(user.interrupt, id)

    async def steers(id: str) -> None:
        await chats.send(id, "no", "steer")

    for number, void in enumerate([edits, interrupts, steers]):
        id = f"c{number}"
        await chats.requires_action(id, action="approval")
        await void(id)
        assert (await chats.load(id)).journal == {}
        with pytest.raises((NothingWaits, TransitionNotAllowed)):
            await chats.do(user.resolve, id, {"a": approval("a")})


async def test_an_approval_that_was_given_is_void_after_an_edit(chats: Chats) -> None:
    await chats.running("c1", calls={"a": "approved"})
    await chats.do(user.edit, "c1", 1, prompt("else"))
    assert (await chats.load()).journal == {}
