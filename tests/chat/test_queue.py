"""Messages that wait: one order everywhere, and none lost or doubled on the way into history."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.chat import queries
from holdfast.chat.errors import InvalidInput, QueuedNotFound, QueueFull, WrongOrder
from holdfast.chat.queue import MAX_QUEUED, read_queue
from holdfast.chat.rows import Deliver, Queued, Status, TurnOutcome, fence_of
from holdfast.chat.transitions import runner, user
from tests.chat.chats import FAILURE, SECOND, Chats, answer, leftover, prompt

MIXED: tuple[Deliver, ...] = ("queue", "steer", "queue", "steer")


async def test_interrupts_go_before_steering_before_the_rest_and_first_come_first_within_each(
    chats: Chats,
) -> None:
    await chats.running("c1", queue=MIXED)
    await chats.send("c1", "stop", "interrupt")
    await chats.send("c1", "steer", "steer")
    await chats.send("c1", "really stop", "interrupt")
    order = ["stop", "really stop", "q2", "q4", "steer", "q1", "q3"]
    assert await chats.queued("c1") == order


async def test_the_order_is_the_same_wherever_the_queue_is_shown(chats: Chats) -> None:
    await chats.running("c1", queue=MIXED)
    await chats.do(user.promote, "c1", "q3")
    shown = await chats.ask(read_queue, "c1")
    changes = await chats.ask(queries.changes, "c1", 0)
    assert changes is not None
    assert list(changes.queue or ()) == list((await chats.load("c1")).queue) == shown
    settled = await chats.do(runner.settle, fence_of(await chats.row()), leftover())
    assert [s.message.text for s in settled.appended] == [q.id for q in shown if q.id != "q1"]


async def test_a_full_queue_refuses_one_more_and_keeps_nothing_of_it(chats: Chats) -> None:
    await chats.running("c1", queue=("queue",) * MAX_QUEUED)
    before = await chats.everything()
    for deliver in ("queue", "steer", "interrupt"):
        with pytest.raises(QueueFull) as refusal:
            await chats.send("c1", "one too many", deliver)
        assert refusal.value.limit == MAX_QUEUED == 50
    assert await chats.everything() == before


async def test_a_message_that_is_delivered_brings_its_author_its_model_and_its_effort(
    chats: Chats,
) -> None:
    await chats.running("c1")
    waiting = Queued("q1", "steer", prompt("think harder"), 0, "big", "high", "ann")
    await chats.do(user.send, "c1", waiting)
    chat = await chats.row()
    assert (chat.model, chat.effort) == (None, None)
    advanced = await chats.do(runner.deliver, fence_of(chat))
    assert (advanced.chat.model, advanced.chat.effort) == ("big", "high")
    assert (await chats.history())[-1].author == "ann"


# --- what is delivered, and when ---


async def test_at_a_step_boundary_all_that_steers_is_delivered_and_the_rest_waits(
    chats: Chats,
) -> None:
    chat = await chats.running("c1", queue=MIXED)
    advanced = await chats.do(runner.deliver, fence_of(chat))
    assert await chats.texts() == ["hello", "q2", "q4"]
    assert await chats.queued() == ["q1", "q3"]
    assert [stored.number for stored in advanced.appended] == [2, 3]
    assert advanced.chat.status is Status.RUNNING


async def test_delivering_what_a_person_took_back_changes_nothing(chats: Chats) -> None:
    chat = await chats.running("c1", queue=("steer",))
    await chats.do(user.remove_queued, "c1", "q1")
    before = await chats.everything()
    chats.take_notices()
    advanced = await chats.do(runner.deliver, fence_of(chat))
    assert advanced.appended == ()
    assert (await chats.everything(), chats.take_notices()) == (before, [])


@pytest.mark.parametrize(
    ("queue", "delivered", "left"),
    [
        (("queue", "queue"), ["q1"], ["q2"]),
        (MIXED, ["q2", "q4"], ["q1", "q3"]),
        (("steer", "steer"), ["q1", "q2"], []),
    ],
)
async def test_the_head_is_all_that_steers_and_otherwise_one(
    chats: Chats, queue: tuple[Deliver, ...], delivered: list[str], left: list[str]
) -> None:
    await chats.running("finish", queue=queue)
    await chats.commit("finish", answer("done"))
    await chats.finish("finish")
    await chats.interrupting("settle", queue=queue)
    await chats.do(runner.settle, fence_of(await chats.row("settle")), leftover())
    for id in ("finish", "settle"):
        assert (await chats.row(id)).status is Status.RUNNING
        assert (await chats.texts(id))[-len(delivered) :] == delivered
        assert await chats.queued(id) == left


async def test_a_message_that_came_after_the_decision_to_finish_is_not_left_behind(
    chats: Chats,
) -> None:
    await chats.running("c1")
    await chats.commit("c1", answer("done"))
    decided = fence_of(await chats.row())
    await chats.send("c1", "one more thing")
    advanced = await chats.do(runner.finish_turn, decided, TurnOutcome("stop", 1))
    assert (advanced.chat.status, advanced.chat.outcome) == (Status.RUNNING, None)
    assert await chats.texts() == ["hello", "done", "one more thing"]


async def test_a_plain_message_after_an_error_keeps_its_place_behind_those_that_wait(
    chats: Chats,
) -> None:
    await chats.error("c1", queue=("queue",))
    sent = await chats.send("c1", "and this")
    assert (sent.number, sent.queued is not None) == (None, True)
    assert await chats.texts() == ["hello", "q1"]
    assert await chats.queued() == ["and this"]


async def test_a_message_that_interrupts_goes_before_everything_that_waits(chats: Chats) -> None:
    await chats.running("c1", queue=MIXED)
    await chats.send("c1", "stop, do this", "interrupt")
    await chats.do(runner.settle, fence_of(await chats.row()), leftover())
    assert (await chats.texts())[1] == "stop, do this"
    await chats.error("c2", queue=("queue", "queue"))
    sent = await chats.send("c2", "rather this", "interrupt")
    assert (await chats.texts("c2"), sent.number) == (["hello", "rather this"], 2)


async def test_the_number_of_a_message_is_told_also_when_others_are_delivered_with_it(
    chats: Chats,
) -> None:
    await chats.error("c1", queue=("steer", "queue"))
    sent = await chats.send("c1", "first of all", "interrupt")
    assert await chats.texts("c1") == ["hello", "first of all", "q1"]
    assert sent.number == 2
    await chats.error("c2", queue=("steer", "queue"))
    promoted = await chats.do(user.promote, "c2", "q2")
    assert await chats.texts("c2") == ["hello", "q2", "q1"]
    assert promoted.number == 2


# --- what people do to it ---


async def test_a_promoted_message_is_the_first_and_interrupts(chats: Chats) -> None:
    await chats.running("c1", queue=("queue", "steer", "queue"))
    promoted = await chats.do(user.promote, "c1", "q3")
    assert (promoted.chat.status, promoted.queued) == (Status.INTERRUPTING, "q3")
    await chats.do(user.promote, "c1", "q1")
    assert await chats.queued() == ["q1", "q3", "q2"]
    assert {q.deliver for q in await chats.ask(read_queue, "c1") if q.id != "q2"} == {"interrupt"}


async def test_a_message_that_comes_later_does_not_overtake_a_promoted_one(chats: Chats) -> None:
    await chats.running("c1", queue=("queue",))
    await chats.do(user.promote, "c1", "q1")
    await chats.send("c1", "me too", "interrupt")
    assert await chats.queued() == ["q1", "me too"]


async def test_a_person_reorders_messages_only_within_their_kind(chats: Chats) -> None:
    await chats.running("c1", queue=("queue", "queue", "steer", "steer"))
    queue = await chats.do(user.reorder, "c1", ["q2", "q4", "q1", "q3"])
    assert [queued.id for queued in queue] == ["q4", "q3", "q2", "q1"]
    await chats.send("c1", "last")
    assert await chats.queued() == ["q4", "q3", "q2", "q1", "last"]


@pytest.mark.parametrize("ids", [["q1"], ["q1", "q2", "q3"], ["q1", "q1"], []])
async def test_an_order_names_every_waiting_message_once(chats: Chats, ids: list[str]) -> None:
    await chats.running("c1", queue=("queue", "queue"))
    before = await chats.everything()
    with pytest.raises(WrongOrder) as refusal:
        await chats.do(user.reorder, "c1", ids)
    assert refusal.value.waiting == ("q1", "q2")
    assert await chats.everything() == before


async def test_an_empty_queue_is_in_order(chats: Chats) -> None:
    chat = await chats.running("c1")
    assert await chats.do(user.reorder, "c1", []) == []
    assert await chats.row() == chat
    with pytest.raises(WrongOrder):
        await chats.do(user.reorder, "c1", ["q1"])


async def test_an_edited_message_keeps_its_place(chats: Chats) -> None:
    await chats.running("c1", queue=("queue", "queue"))
    await chats.do(user.edit_queued, "c1", "q1", prompt("changed"))
    assert await chats.queued() == ["changed", "q2"]
    await chats.do(user.edit_queued, "c1", "q1", prompt("again"), "queue")
    assert await chats.queued() == ["again", "q2"]


async def test_an_edited_message_of_another_kind_goes_behind_those_of_its_new_kind(
    chats: Chats,
) -> None:
    await chats.running("c1", queue=("queue", "queue", "steer"))
    queue = await chats.do(user.edit_queued, "c1", "q1", prompt("now"), "steer")
    assert [queued.message.text for queued in queue] == ["q3", "now", "q2"]
    await chats.do(user.edit_queued, "c1", "q3", prompt("later"), "queue")
    assert await chats.queued() == ["now", "q2", "later"]


async def test_only_promoting_makes_a_waiting_message_interrupt(chats: Chats) -> None:
    await chats.running("c1", queue=("queue",))
    before = await chats.everything()
    with pytest.raises(InvalidInput):
        await chats.do(user.edit_queued, "c1", "q1", prompt("now"), "interrupt")
    assert await chats.everything() == before


async def test_a_message_is_taken_back_once(chats: Chats) -> None:
    await chats.running("c1", queue=("queue", "queue"))
    taken = await chats.do(user.remove_queued, "c1", "q1")
    assert taken.message.text == "q1"
    assert await chats.queued() == ["q2"]
    with pytest.raises(QueuedNotFound) as refusal:
        await chats.do(user.remove_queued, "c1", "q1")
    assert refusal.value.id == "q1"


@pytest.mark.parametrize(
    ("transition", "args"),
    [
        (user.promote, ("q1",)),
        (user.remove_queued, ("q1",)),
        (user.edit_queued, ("q1", prompt("x"))),
    ],
)
async def test_what_was_delivered_can_no_longer_be_changed(
    chats: Chats, transition: Any, args: tuple[Any, ...]
) -> None:
    await chats.error("c1", queue=("queue",))
    await chats.send("c1", "go on")
    before = await chats.everything()
    with pytest.raises(QueuedNotFound):
        await chats.do(transition, "c1", *args)
    assert await chats.everything() == before


# --- while the next attempt is waited for ---


async def waiting_to_retry(chats: Chats) -> None:
    chat = await chats.running("c1", queue=("queue",))
    await chats.do(runner.record_retry, fence_of(chat), FAILURE, 3, 60 * SECOND, release=True)
    assert (await chats.row()).retry_at == chats.after(60)
    assert await chats.claim() == []


async def test_what_steers_ends_the_wait_for_the_next_attempt(chats: Chats) -> None:
    await waiting_to_retry(chats)
    sent = await chats.send("c1", "use the other one", "steer")
    assert (sent.chat.retry_at, sent.chat.attempt) == (None, 2)
    assert sent.chat.retry is not None
    assert (sent.chat.retry.attempt, sent.chat.retry.at) == (1, None)
    assert await chats.claim() == ["c1"]


async def test_what_is_made_to_steer_ends_the_wait_for_the_next_attempt(chats: Chats) -> None:
    await waiting_to_retry(chats)
    await chats.do(user.edit_queued, "c1", "q1", prompt("now"), "steer")
    assert await chats.claim() == ["c1"]


async def test_a_plain_message_does_not_end_the_wait(chats: Chats) -> None:
    await waiting_to_retry(chats)
    await chats.send("c1", "later")
    assert await chats.claim() == []
    chats.clock.advance(60)
    assert await chats.claim() == ["c1"]


async def test_an_attempt_that_fails_while_something_steers_is_not_waited_for(
    chats: Chats,
) -> None:
    chat = await chats.running("c1", queue=("steer",))
    advanced = await chats.do(
        runner.record_retry, fence_of(chat), FAILURE, 3, 60 * SECOND, release=True
    )
    assert (advanced.chat.retry_at, advanced.chat.worker_id) == (None, "w1")
    assert advanced.chat.retry is not None
    assert advanced.chat.retry.at is None
