"""What people say while a chat is busy: when it is heard, and in which order."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from holdfast.chat.rows import Deliver
from holdfast.chat.transitions import user
from holdfast.hooks import Context
from holdfast.kernel.messages import user_message
from holdfast.kernel.stop_guard import Inject
from holdfast.kernel.tool import tool
from holdfast.store.database import Database
from holdfast.testing import Clock, ScriptedModel, call, fail, hang, pause, say
from tests.worker.workers import SECOND, Life, asks, living, results_of

SKIPPED = "Skipped because of a new message from the user."


def request_lines(life: Life, request: int = -1) -> list[str]:
    """What the model was told."""
    return [m.text for m in life.agent.model.requests[request].messages]  # type: ignore[union-attr]


# --- steering -----------------------------------------------------------------------------------


async def test_steering_does_not_stop_an_answer(db: Database, clock: Clock) -> None:
    async with living(db, [[say("On"), pause(5), say("e.")], "Two."], clock=clock) as life:
        chat_id = await life.begin("1")
        await anyio.sleep(1)
        await life.send(chat_id, "2", "steer")
        await life.rest(chat_id)
        assert await life.lines(chat_id) == [
            "prompt: 1",
            "answer: One.",
            "prompt: 2",
            "answer: Two.",
        ]


async def test_steering_skips_cancels_or_lets_finish_as_each_tool_wants(
    db: Database, clock: Clock
) -> None:
    ended: list[str] = []

    @tool(effect="pure")
    async def look() -> str:
        await anyio.sleep(3600)
        return "never"

    @tool(effect="once", parallel=True)
    async def act() -> str:
        await anyio.sleep(10)
        ended.append("act")
        return "acted"

    @tool(effect="once", parallel=True, on_steer="cancel")
    async def watch() -> str:
        await anyio.sleep(3600)
        return "never"

    @tool(effect="once", parallel=False)
    async def later() -> str:
        raise AssertionError

    tools = [look, act, watch, later]
    async with living(db, [[call(t.name) for t in tools], "I see."], tools, clock=clock) as life:
        chat_id = await life.begin()
        await anyio.sleep(2)
        await life.send(chat_id, "stop looking", "steer")
        before = clock.now()
        await life.rest(chat_id)
        assert clock.now() - before < 9 * SECOND
        made = {
            one.tool: (one.outcome, one.text) for one in results_of(await life.history(chat_id))
        }
        cancelled = "Cancelled because of a new message from the user."
        assert made == {
            "look": ("interrupted", cancelled),
            "act": ("ok", "acted"),
            "watch": ("interrupted", f"{cancelled} It may have taken effect."),
            "later": ("skipped", SKIPPED),
        }
        assert ended == ["act"]
        assert (await life.lines(chat_id))[-2:] == ["prompt: stop looking", "answer: I see."]
        assert await life.journal(chat_id) == {}


async def test_calls_that_had_not_started_are_skipped(db: Database, clock: Clock) -> None:
    @tool
    async def act() -> str:
        raise AssertionError

    async with living(
        db, [[pause(3), call("act"), call("act")], "So."], [act], clock=clock
    ) as life:
        chat_id = await life.begin()
        await anyio.sleep(1)
        await life.send(chat_id, "no", "steer")
        await life.rest(chat_id)
        made = results_of(await life.history(chat_id))
        assert [(one.outcome, one.text) for one in made] == [("skipped", SKIPPED)] * 2


@pytest.mark.parametrize("seconds", [20, 120])
async def test_steering_ends_a_wait_for_the_next_attempt(
    db: Database, clock: Clock, seconds: float
) -> None:
    """Also one that belongs to nobody, because it is long."""
    script = [fail(kind="rate_limit", retry_after=seconds), "Now."]
    async with living(db, script, clock=clock) as life:
        chat_id = await life.begin()
        await life.until(chat_id, lambda chat: chat.retry is not None)
        await anyio.sleep(2)
        before = clock.now()
        await life.send(chat_id, "hurry", "steer")
        await life.rest(chat_id)
        assert clock.now() - before < SECOND
        assert await life.lines(chat_id) == ["prompt: ?", "prompt: hurry", "answer: Now."]


async def test_steering_that_came_as_an_attempt_failed_leaves_no_wait(
    db: Database, clock: Clock
) -> None:
    script = [[pause(5), fail(kind="rate_limit", retry_after=20)], "Now."]
    async with living(db, script, clock=clock) as life:
        life.faulty_db.hold("record_retry")
        chat_id = await life.begin()
        await anyio.sleep(6)
        await life.send(chat_id, "hurry", "steer")
        before = clock.now()
        life.faulty_db.resume()
        await life.rest(chat_id)
        assert clock.now() - before < SECOND


async def test_queued_messages_wait_for_the_next_attempt_too(db: Database, clock: Clock) -> None:
    script = [fail(kind="rate_limit", retry_after=20), "One.", "Two."]
    async with living(db, script, clock=clock) as life:
        chat_id = await life.begin("1")
        await life.until(chat_id, lambda chat: chat.retry is not None)
        before = clock.now()
        await life.send(chat_id, "2")
        await life.rest(chat_id)
        assert clock.now() - before >= 20 * SECOND
        assert await life.lines(chat_id) == [
            "prompt: 1",
            "answer: One.",
            "prompt: 2",
            "answer: Two.",
        ]


async def test_steering_that_is_taken_back_in_time_is_not_delivered(
    db: Database, clock: Clock
) -> None:
    async with living(db, [[pause(5), say("One.")]], clock=clock) as life:
        chat_id = await life.begin("1")
        await anyio.sleep(1)
        await life.send(chat_id, "2", "steer")
        (queued,) = await life.queue(chat_id)
        await life.do(user.remove_queued, chat_id, queued.id)
        await life.rest(chat_id)
        assert await life.lines(chat_id) == ["prompt: 1", "answer: One."]


async def test_steering_a_chat_that_waits_for_somebody_goes_on_at_once(
    db: Database, clock: Clock
) -> None:
    async with living(db, [call("asks"), "Fine."], [asks], clock=clock) as life:
        chat_id = await life.begin()
        await life.until(chat_id, lambda chat: chat.status == "requires_action")
        before = clock.now()
        await life.send(chat_id, "never mind", "steer")
        await life.rest(chat_id)
        assert clock.now() - before < SECOND
        assert (await life.lines(chat_id))[2:] == [
            f"results: skipped {SKIPPED}",
            "prompt: never mind",
            "answer: Fine.",
        ]


async def test_steering_while_an_action_is_about_to_be_asked_for_is_not_left_behind(
    db: Database, clock: Clock
) -> None:
    async with living(db, [call("asks"), "Fine."], [asks], clock=clock) as life:
        life.faulty_db.hold("require_action")
        chat_id = await life.begin()
        await anyio.sleep(1)
        assert life.faulty_db.waiting == ["require_action"]
        await life.send(chat_id, "never mind", "steer")
        life.faulty_db.resume()
        await life.rest(chat_id)
        assert (await life.lines(chat_id))[-2:] == ["prompt: never mind", "answer: Fine."]


# --- order --------------------------------------------------------------------------------------

ALL: tuple[tuple[str, Deliver], ...] = (
    ("q1", "queue"),
    ("s1", "steer"),
    ("q2", "queue"),
    ("s2", "steer"),
)


async def test_steering_goes_before_what_was_queued_earlier(db: Database, clock: Clock) -> None:
    model = ScriptedModel([[pause(5), "One."], *["Yes."] * 3])
    async with living(db, model, clock=clock) as life:
        chat_id = await life.begin("1")
        await anyio.sleep(1)
        for text, deliver in ALL:
            await life.send(chat_id, text, deliver)
        assert [one.message.text for one in await life.queue(chat_id)] == ["s1", "s2", "q1", "q2"]
        await life.rest(chat_id)
        assert [line for line in await life.lines(chat_id) if line.startswith("prompt")] == [
            "prompt: 1",
            "prompt: s1",
            "prompt: s2",
            "prompt: q1",
            "prompt: q2",
        ]
        # Both that steer are heard together, the others one by one.
        assert [len(request_lines(life, number)) for number in range(4)] == [1, 4, 6, 8]


async def test_an_interrupt_that_was_sent_goes_before_everything(
    db: Database, clock: Clock
) -> None:
    model = ScriptedModel([[hang()], *["Yes."] * 3])
    async with living(db, model, clock=clock) as life:
        chat_id = await life.begin("1")
        await anyio.sleep(1)
        for text, deliver in ALL:
            await life.send(chat_id, text, deliver)
        await life.send(chat_id, "i1", "interrupt")
        await life.rest(chat_id)
        prompts = [m.text for m in await life.history(chat_id) if m.kind == "prompt"]
        assert prompts == ["1", "i1", "s1", "s2", "q1", "q2"]


async def test_a_promoted_message_interrupts_and_is_next(db: Database, clock: Clock) -> None:
    model = ScriptedModel([[say("Half"), hang()], *["Yes."] * 2])
    async with living(db, model, clock=clock) as life:
        chat_id = await life.begin("1")
        await anyio.sleep(1)
        for text in ("2", "3"):
            await life.send(chat_id, text)
        _, last = await life.queue(chat_id)
        await life.do(user.promote, chat_id, last.id)
        before = clock.now()
        # One that stays in the queue is delivered again and again, and no time passes.
        chat = await life.until(chat_id, lambda chat: not chat.busy or chat.messages > 20)
        assert chat.status == "idle"
        assert clock.now() - before < SECOND
        prompts = [m.text for m in await life.history(chat_id) if m.kind == "prompt"]
        assert prompts == ["1", "3", "2"]
        assert (await life.lines(chat_id))[1] == "answer: Half"


async def test_what_a_person_reorders_is_delivered_in_that_order(
    db: Database, clock: Clock
) -> None:
    model = ScriptedModel([[pause(5), "One."], *["Yes."] * 3])
    async with living(db, model, clock=clock) as life:
        chat_id = await life.begin("1")
        await anyio.sleep(1)
        for text in ("2", "3", "4"):
            await life.send(chat_id, text)
        ids = [one.id for one in await life.queue(chat_id)]
        await life.do(user.reorder, chat_id, [ids[2], ids[0], ids[1]])
        await life.do(user.edit_queued, chat_id, ids[1], user_message("three"))
        await life.rest(chat_id)
        prompts = [m.text for m in await life.history(chat_id) if m.kind == "prompt"]
        assert prompts == ["1", "4", "2", "three"]


# --- the end of a turn --------------------------------------------------------------------------


@pytest.mark.parametrize("deliver", ["queue", "steer", "interrupt"])
async def test_a_message_that_comes_between_decision_and_commit_is_delivered(
    db: Database, clock: Clock, deliver: Deliver
) -> None:
    async with living(db, ["One.", "Two."], clock=clock) as life:
        life.faulty_db.hold("finish_turn")
        chat_id = await life.begin("1")
        await anyio.sleep(1)
        assert life.faulty_db.waiting == ["finish_turn"]
        await life.send(chat_id, "2", deliver)
        life.faulty_db.resume()
        await life.rest(chat_id)
        assert await life.lines(chat_id) == [
            "prompt: 1",
            "answer: One.",
            "prompt: 2",
            "answer: Two.",
        ]


async def test_the_guard_is_not_asked_while_somebody_waits(db: Database, clock: Clock) -> None:
    asked: list[str] = []

    async def guard(_context: Context, about: Any) -> Inject | None:
        asked.append(about.message.text)
        return None

    async with living(db, [[pause(5), "One."], "Two."], clock=clock, guard=guard) as life:
        chat_id = await life.begin("1")
        await anyio.sleep(1)
        await life.send(chat_id, "2")
        await life.rest(chat_id)
        assert asked == ["Two."]


async def test_the_guard_is_asked_when_what_waited_was_taken_back(
    db: Database, clock: Clock
) -> None:
    """Just then, when the turn was about to end without a question."""
    asked: list[str] = []

    async def guard(_context: Context, about: Any) -> Inject | None:
        asked.append(about.message.text)
        return None

    async with living(db, [[pause(5), "One."]], clock=clock, guard=guard) as life:
        chat_id = await life.begin("1")
        await anyio.sleep(1)
        await life.send(chat_id, "2")
        life.faulty_db.hold("finish_turn")
        await anyio.sleep(10)
        assert life.faulty_db.waiting == ["finish_turn"]
        (waiting,) = await life.queue(chat_id)
        await life.do(user.remove_queued, chat_id, waiting.id)
        life.faulty_db.resume()
        await life.rest(chat_id)
        assert asked == ["One."]


async def test_a_message_may_come_with_another_model(db: Database, clock: Clock) -> None:
    async with living(db, [[pause(5), "One."]], clock=clock) as life:
        chat_id = await life.begin("1")
        await anyio.sleep(1)
        await life.send(chat_id, "2", model="nobody:nothing")
        chat = await life.rest(chat_id)
        assert chat.model == "nobody:nothing"
        assert chat.error is not None
        assert chat.error.kind == "config"


async def test_another_model_is_used_from_the_next_step_on(db: Database, clock: Clock) -> None:
    """Also when every step is a plain commit that reads nothing back."""

    @tool(effect="pure")
    async def look() -> str:
        await anyio.sleep(5)
        return "found"

    async with living(db, [call("look"), "Never."], [look], clock=clock) as life:
        chat_id = await life.begin()
        await anyio.sleep(1)
        await life.do(user.update, chat_id, {"model": "nobody:nothing"})
        chat = await life.rest(chat_id)
        assert chat.error is not None
        assert chat.error.kind == "config"
