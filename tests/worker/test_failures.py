"""Internal errors are retried a few times, then shown; no effect is repeated."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from holdfast.chat.queries import spent
from holdfast.chat.transitions import user
from holdfast.kernel.messages import user_message
from holdfast.kernel.policy import ContextLimits, Policy
from holdfast.kernel.summary_checkpoint import SUMMARY_SECTIONS
from holdfast.kernel.tool import tool
from holdfast.store.database import Database
from holdfast.testing import Clock, ScriptedModel, call, fail, hang, pause, say
from holdfast.testing import usage as reports
from holdfast.worker.options import WorkerOptions
from tests.worker.workers import fail_next_read, living, results_of, spent_input

SUMMARY = "\n".join(f"## {section}\n-" for section in SUMMARY_SECTIONS)


@pytest.mark.parametrize("name", ["commit", "finish_turn"])
async def test_an_error_that_passes_is_not_seen(db: Database, clock: Clock, name: str) -> None:
    async with living(db, ["One."], clock=clock) as life:
        life.faulty_db.refuse(name, 2)
        chat = await life.rest(await life.begin())
        assert chat.status == "idle"
        assert await life.lines(chat.id) == ["prompt: ?", "answer: One."]


async def test_an_error_that_stays_is_shown_with_a_reference_into_the_log(
    db: Database, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    async with living(db, ["One."], clock=clock) as life:
        life.faulty_db.refuse("finish_turn", 3)
        chat = await life.rest(await life.begin())
        assert chat.error is not None
        assert chat.error.kind == "internal"
        (reference,) = [word for word in chat.error.detail.split() if word.startswith("0-id")]
        assert reference in caplog.text
        await life.do(user.retry, chat.id)
        assert (await life.rest(chat.id)).status == "idle"


async def test_an_answer_that_never_can_be_committed_is_asked_for_once_and_counted(
    db: Database, clock: Clock
) -> None:
    model = ScriptedModel([[reports(input=7), say("One.")]])
    async with living(db, model, clock=clock) as life:
        life.faulty_db.refuse("commit", 3)
        chat_id = await life.begin()
        chat = await life.rest(chat_id)
        assert chat.error is not None
        assert chat.error.kind == "internal"
        assert len(model.requests) == 1
        assert await spent_input(life, chat_id) == 7


@pytest.mark.parametrize("broken", ["refuse", "break_after"])
async def test_an_answer_is_counted_once_however_its_commit_broke(
    db: Database, clock: Clock, broken: str
) -> None:
    async with living(db, [[reports(input=7), say("One.")]], clock=clock) as life:
        getattr(life.faulty_db, broken)("commit")
        chat_id = await life.begin()
        await life.rest(chat_id)
        assert await life.lines(chat_id) == ["prompt: ?", "answer: One."]
        assert await spent_input(life, chat_id) == 7


async def test_an_answer_is_not_committed_again_to_a_history_that_was_edited_meanwhile(
    db: Database, clock: Clock
) -> None:
    script = [[reports(input=7), say("Old.")], [reports(input=5), say("New.")]]
    async with living(db, script, clock=clock) as life:
        life.faulty_db.refuse("commit", 2)
        chat_id = await life.begin()
        await life.until(chat_id, lambda chat: life.faulty_db.writes["commit"] > 0)
        await life.do(user.edit, chat_id, 1, user_message("else"))
        await life.rest(chat_id)
        assert await life.lines(chat_id) == ["prompt: else", "answer: New."]
        assert await spent_input(life, chat_id) == 12


async def test_an_answer_whose_commit_broke_is_kept_when_the_chat_is_interrupted_meanwhile(
    db: Database, clock: Clock
) -> None:
    async with living(db, ["One."], clock=clock) as life:
        life.faulty_db.refuse("commit", 2)
        chat_id = await life.begin()
        await life.until(chat_id, lambda chat: life.faulty_db.writes["commit"] > 0)
        await life.interrupted(chat_id)
        assert "answer: One." in await life.lines(chat_id)


async def test_what_had_arrived_is_kept_although_the_settlement_broke(
    db: Database, clock: Clock
) -> None:
    options = WorkerOptions(partial=60)  # nobody else has it
    async with living(db, [[say("Half"), hang()]], clock=clock, options=options) as life:
        life.faulty_db.refuse("settle", 2)
        chat_id = await life.begin()
        await anyio.sleep(1)
        await life.interrupted(chat_id)
        assert "answer: Half" in await life.lines(chat_id)


async def test_an_answer_is_counted_once_that_is_interrupted_when_its_commit_broke_for_good(
    db: Database, clock: Clock
) -> None:
    async with living(db, [[reports(input=7), say("One.")]], clock=clock) as life:
        life.faulty_db.refuse("commit", 3)
        life.faulty_db.hold("fail")
        chat_id = await life.begin()
        await anyio.sleep(10)
        assert life.faulty_db.waiting == ["fail"]
        await life.do(user.interrupt, chat_id)
        life.faulty_db.resume()
        chat = await life.rest(chat_id)
        assert chat.status == "idle"
        assert "answer: One." in await life.lines(chat_id)
        assert await spent_input(life, chat_id) == 7


async def test_what_a_step_produced_outlives_a_chat_that_cannot_be_read_at_first(
    db: Database, clock: Clock
) -> None:
    options = WorkerOptions(troubles=5)
    async with living(db, ["One."], clock=clock, options=options) as life:
        life.faulty_db.refuse("commit", 2)
        chat_id = await life.begin()
        await life.until(chat_id, lambda chat: life.faulty_db.writes["commit"] > 0)
        fail_next_read(life, RuntimeError("a defect of our own"))
        await life.rest(chat_id)
        assert await life.lines(chat_id) == ["prompt: ?", "answer: One."]


async def test_an_answer_whose_commit_broke_is_committed_also_when_the_worker_goes(
    db: Database, clock: Clock
) -> None:
    async with living(db, ["One."], clock=clock, options=WorkerOptions(grace=0)) as life:
        life.faulty_db.refuse("commit", 2)
        chat_id = await life.begin()
        await life.until(chat_id, lambda chat: life.faulty_db.writes["commit"] > 0)
        await life.stop()
        assert await life.lines(chat_id) == ["prompt: ?", "answer: One."]
        assert (await life.chat(chat_id)).worker_id is None


async def test_an_answer_is_counted_when_the_chat_cannot_be_read_after_its_commit_broke(
    db: Database, clock: Clock
) -> None:
    options = WorkerOptions(troubles=2)
    script = [[reports(input=7), say("One.")]]
    async with living(db, script, clock=clock, options=options) as life:

        async def broken(*given: object) -> None:
            fail_next_read(life, RuntimeError("a defect of our own"))
            raise RuntimeError("another")

        life.faulty_db.write_together = broken  # type: ignore[method-assign, assignment]
        chat_id = await life.begin()
        chat = await life.rest(chat_id)
        assert chat.status == "error"
        assert await spent_input(life, chat_id) == 7


async def test_calls_that_ran_while_the_answer_arrived_do_not_run_again_when_its_commit_broke(
    db: Database, clock: Clock
) -> None:
    ran: list[str] = []

    @tool(effect="pure")
    async def look() -> str:
        ran.append("look")
        return "seen"

    script = [[call("look"), pause(0.5), say("Hm.")], "Done."]
    async with living(db, script, [look], clock=clock) as life:
        life.faulty_db.refuse("commit")
        chat_id = await life.begin()
        await life.rest(chat_id)
        (made,) = results_of(await life.history(chat_id))
        assert made.text == "seen"
        assert ran == ["look"]


async def test_what_a_summary_cost_whose_commit_broke_is_counted(
    db: Database, clock: Clock
) -> None:
    summary = [reports(input=3, output=1), say(SUMMARY)]
    async with living(db, ["One. " * 500, summary, summary], clock=clock) as life:
        chat_id = await life.begin()
        await life.rest(chat_id)
        life.faulty_db.refuse("finish_turn")
        await life.do(user.compact, chat_id)
        await life.until(chat_id, lambda chat: chat.status == "idle" and not chat.compaction)
        assert await spent_input(life, chat_id) == 6


async def test_a_call_that_has_ended_is_not_lost_with_the_step(db: Database, clock: Clock) -> None:
    ran: list[str] = []

    @tool(effect="once")
    async def act() -> str:
        ran.append("act")
        return "done"

    async with living(db, [call("act"), "Done."], [act], clock=clock) as life:
        life.faulty_db.refuse("commit_step")
        chat_id = await life.begin()
        await life.rest(chat_id)
        (made,) = results_of(await life.history(chat_id))
        assert (made.outcome, made.text) == ("ok", "done")
        assert ran == ["act"]


async def test_a_call_whose_beginning_could_not_be_written_down_is_tried_again_not_told(
    db: Database, clock: Clock
) -> None:
    """The tool has not failed: it was never called."""
    ran: list[str] = []

    @tool(effect="once")
    async def act() -> str:
        ran.append("act")
        return "done"

    async with living(db, [call("act"), "Done."], [act], clock=clock) as life:
        life.faulty_db.refuse("start_calls", 2)
        chat_id = await life.begin()
        chat = await life.rest(chat_id)
        (made,) = results_of(await life.history(chat_id))
        assert (chat.status, made.outcome, made.text) == ("idle", "ok", "done")
        assert ran == ["act"]


async def test_beginnings_that_never_can_be_written_down_end_the_turn_with_the_call_open(
    db: Database, clock: Clock
) -> None:
    ran: list[str] = []

    @tool(effect="once")
    async def act() -> str:
        ran.append("act")
        return "done"

    async with living(db, [call("act"), "Done."], [act], clock=clock) as life:
        life.faulty_db.refuse("start_calls", 3)
        chat_id = await life.begin()
        chat = await life.rest(chat_id)
        assert chat.error is not None
        assert chat.error.kind == "internal"
        assert results_of(await life.history(chat_id)) == []
        assert ran == []
        await life.do(user.retry, chat_id)
        await life.rest(chat_id)
        assert ran == ["act"]


async def test_a_call_that_could_not_begin_stops_none_that_runs_beside_it(
    db: Database, clock: Clock
) -> None:
    ran: list[str] = []

    @tool(effect="once", parallel=True)
    async def act() -> str:
        ran.append("act")
        return "done"

    @tool(effect="once", parallel=True)
    async def slow() -> str:
        ran.append("slow")
        await anyio.sleep(20)
        return "slept"

    script = [[call("act"), call("slow")], "Done."]
    async with living(db, script, [act, slow], clock=clock) as life:
        life.faulty_db.refuse("start_calls")
        chat_id = await life.begin()
        await life.rest(chat_id)
        made = results_of(await life.history(chat_id))
        assert [(one.outcome, one.text) for one in made] == [("ok", "done"), ("ok", "slept")]
        assert ran == ["slow", "act"]


async def test_no_call_begins_in_front_of_one_that_could_not_begin(
    db: Database, clock: Clock
) -> None:
    ran: list[str] = []

    @tool(effect="once")
    async def write() -> str:
        ran.append("write")
        return "written"

    @tool(effect="pure")
    async def read() -> str:
        ran.append("read")
        return "read"

    script = [[call("write"), call("read")], "Done."]
    async with living(db, script, [write, read], clock=clock) as life:
        life.faulty_db.refuse("start_calls")
        await life.rest(await life.begin())
        assert ran == ["write", "read"]


async def test_a_call_runs_of_which_it_is_written_that_it_began_and_known_that_it_did_not(
    db: Database, clock: Clock
) -> None:
    """Its row was committed, and what broke then is ours: nobody has called its function."""
    ran: list[str] = []

    @tool(effect="once")
    async def act() -> str:
        ran.append("act")
        return "done"

    async with living(db, [call("act"), "Done."], [act], clock=clock) as life:
        life.faulty_db.break_after("start_calls")
        chat_id = await life.begin()
        await life.rest(chat_id)
        (made,) = results_of(await life.history(chat_id))
        assert (made.outcome, made.text) == ("ok", "done")
        assert ran == ["act"]


async def test_a_call_of_whose_end_nothing_could_be_written_is_not_run_again(
    db: Database, clock: Clock
) -> None:
    ran: list[str] = []

    @tool(effect="once")
    async def act() -> str:
        ran.append("act")
        return "done"

    async with living(db, [call("act"), "Hm."], [act], clock=clock) as life:
        life.faulty_db.refuse("commit_step")
        life.faulty_db.refuse("finish_call", 2)
        chat_id = await life.begin()
        await life.rest(chat_id)
        (made,) = results_of(await life.history(chat_id))
        assert made.outcome == "lost"
        assert ran == ["act"]


async def test_a_call_whose_runner_is_gone_is_not_run_again_by_the_next_of_the_same_worker(
    db: Database, clock: Clock
) -> None:
    """The row is of the same claim: that alone does not say that nobody called the function."""
    ran: list[str] = []

    @tool(effect="once")
    async def act() -> str:
        ran.append("act")
        await anyio.sleep(3600)
        return "never"

    async with living(db, [call("act"), "Hm."], [act], clock=clock) as life:
        chat_id = await life.begin()
        await anyio.sleep(2)
        (runner,) = life.worker._runners.values()
        runner._group.cancel_scope.cancel()
        chat = await life.rest(chat_id)
        assert chat.epoch == 1
        (made,) = results_of(await life.history(chat_id))
        assert made.outcome == "lost"
        assert ran == ["act"]


# --- what was spent is counted ------------------------------------------------------------------


async def test_what_a_summary_cost_that_was_stopped_is_counted(db: Database, clock: Clock) -> None:
    script = [
        "One. " * 500,
        [reports(input=3, output=1), say("no summary at all"), say("")],
        [say("## Go"), hang()],
        [reports(input=5, output=1), say(SUMMARY)],
    ]
    policy = Policy(context=ContextLimits(summary_attempts=5))
    async with living(db, script, clock=clock, policy=policy) as life:
        chat_id = await life.begin()
        await life.rest(chat_id)
        await life.do(user.compact, chat_id)
        await anyio.sleep(600)
        await life.interrupted(chat_id)
        counted = await db.read(lambda tx: spent(tx, chat_id))
        assert counted.usage.input == 3
        await life.do(user.compact, chat_id)
        await life.rest(chat_id)
        counted = await db.read(lambda tx: spent(tx, chat_id))
        assert counted.usage.input == 8


@pytest.mark.parametrize("asked_by", ["a person", "an overflow"])
async def test_what_a_summary_cost_that_failed_is_counted(
    db: Database, clock: Clock, asked_by: str
) -> None:
    script: list[Any] = ["One. " * 500, [reports(input=3, output=1), say("")], [fail(kind="auth")]]
    if asked_by == "an overflow":
        script.insert(1, fail(kind="context_overflow"))
    async with living(db, script, clock=clock) as life:
        chat_id = await life.begin()
        await life.rest(chat_id)
        if asked_by == "a person":
            await life.do(user.compact, chat_id)
        else:
            await life.send(chat_id, "and?")
        chat = await life.rest(chat_id)
        # A person who wanted one still has a chat at rest.
        assert chat.status == ("idle" if asked_by == "a person" else "error")
        counted = await db.read(lambda tx: spent(tx, chat_id))
        assert counted.usage.input == 3


async def test_a_first_message_that_does_not_fit_is_what_is_too_long(
    db: Database, clock: Clock
) -> None:
    async with living(db, [fail(kind="context_overflow")], clock=clock) as life:
        chat = await life.rest(await life.begin())
        assert chat.error is not None
        assert chat.error.kind == "still_over_limit"
        assert chat.error.message.startswith("The message is too long for scripted:model: about ")


async def test_a_partial_answer_that_was_being_written_during_trouble_is_gone_at_rest(
    db: Database, clock: Clock
) -> None:
    async with living(db, [[say("Half"), pause(3), say(" and half.")]], clock=clock) as life:
        await life.hold("write_partial", "commit")
        life.faulty_db.refuse("commit_step")
        chat_id = await life.begin()
        await anyio.sleep(30)
        life.faulty_db.resume()
        life.faulty_db.hold("commit")
        await anyio.sleep(1)
        life.faulty_db.resume()
        await life.rest(chat_id)
        assert await life.lines(chat_id) == ["prompt: ?", "answer: Half and half."]
        assert not await db.read(lambda tx: tx.fetch("SELECT chat_id FROM partials"))
