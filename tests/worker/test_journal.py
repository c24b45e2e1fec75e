"""What a crash does to a tool call: the table of the tool journal, cell by cell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from holdfast.chat import doctor
from holdfast.chat.queries import list_chats
from holdfast.chat.rows import fence_of
from holdfast.chat.transitions import runner, user
from holdfast.chat.transitions.lifecycle import NewChat, Spawn
from holdfast.hooks import Context
from holdfast.kernel.errors import Failure
from holdfast.kernel.messages import Message, Text, ToolResult, user_message
from holdfast.kernel.tool import Commit, Effect, Tool, ToolContext, tool
from holdfast.store.database import Database
from holdfast.testing import Clock, ScriptedModel, call, pause
from holdfast.worker.options import WorkerOptions
from tests.worker.workers import Life, living, results_of

IMPATIENT = WorkerOptions(grace=0)
LOST = "Interrupted by a restart; it may or may not have taken effect."


class Deeds:
    """What tools have done to the world, over all lives."""

    def __init__(self) -> None:
        self.done: list[str] = []
        """The ids of the calls whose function was called."""
        self.hold = anyio.Event()
        """Calls that take long end with it."""

    def deed(self, effect: Effect, *, long: bool = True) -> Tool:
        @tool(name="deed", effect=effect, parallel=True)
        async def deed(context: ToolContext) -> Any:
            self.done.append(context.call_id)
            if long:
                await self.hold.wait()
            else:  # a pure one begins with the stream: it must not end before its answer
                await anyio.sleep(0.5)
            return self._spawned() if effect == "commit" else "done"

        return deed

    def _spawned(self) -> Commit:
        child = NewChat(id=f"child-{len(self.done)}", agent="agent", message=user_message("work"))
        return Commit("done", (Spawn(child),))

    def sibling(self) -> Tool:
        @tool(effect="pure")
        async def sibling() -> str:
            await self.hold.wait()
            return "slow"

        return sibling


@pytest.fixture
async def deeds() -> Deeds:
    return Deeds()


async def dies(life: Life, deeds: Deeds, seconds: float = 3) -> None:
    await anyio.sleep(seconds)
    await life.die()
    deeds.hold.set()


def outcome(made: ToolResult) -> tuple[str, str]:
    return made.outcome, made.text


DONE = ("ok", "done")
RUN_AGAIN = pytest.mark.parametrize("effect", ["pure", "idempotent", "commit"])
EVERY = pytest.mark.parametrize("effect", ["pure", "idempotent", "once", "commit"])


@EVERY
async def test_a_call_that_had_not_started_is_run(
    db: Database, clock: Clock, deeds: Deeds, effect: Effect
) -> None:
    # The answer is committed, and nothing more: a pure call may have begun with the stream.
    model = ScriptedModel([call("deed")], default="End.")
    async with living(db, model, [deeds.deed(effect)], clock=clock) as first:
        chat_id = await first.begin()
        first.faulty_db.hold("start_calls", "commit_step")
        await dies(first, deeds)
        assert (await first.lines(chat_id))[1:] == ["answer: →deed"]
    async with living(db, model, [deeds.deed(effect)], clock=clock, seed=1) as second:
        await second.rest(chat_id)
        assert [outcome(one) for one in results_of(await second.history(chat_id))] == [DONE]
        assert len(deeds.done) == (1 if effect in ("idempotent", "once") else 2)


@RUN_AGAIN
async def test_a_call_of_unknown_outcome_that_may_be_run_again_is(
    db: Database, clock: Clock, deeds: Deeds, effect: Effect
) -> None:
    model = ScriptedModel([call("deed")], default="End.")
    async with living(db, model, [deeds.deed(effect)], clock=clock) as first:
        chat_id = await first.begin()
        await dies(first, deeds)
        state = await first.journal(chat_id)
        assert [row.state for row in state.values()] == ["started"] * (effect == "idempotent")
    async with living(db, model, [deeds.deed(effect)], clock=clock, seed=1) as second:
        await second.rest(chat_id)
        assert [outcome(one) for one in results_of(await second.history(chat_id))] == [DONE]
        assert deeds.done == ["call_1", "call_1"]  # the id is the key that makes it harmless


async def test_a_call_of_unknown_outcome_that_may_run_once_is_not_run_again(
    db: Database, clock: Clock, deeds: Deeds
) -> None:
    model = ScriptedModel([call("deed")], default="End.")
    async with living(db, model, [deeds.deed("once")], clock=clock) as first:
        chat_id = await first.begin()
        await dies(first, deeds)
        row = (await first.journal(chat_id))["deed"]
        assert row.state == "started"
    async with living(db, model, [deeds.deed("once")], clock=clock, seed=1) as second:
        await second.rest(chat_id)
        (lost,) = results_of(await second.history(chat_id))
        assert (lost.started_at, lost.finished_at) == (row.started_at, None)
        assert [outcome(one) for one in results_of(await second.history(chat_id))] == [
            ("lost", LOST)
        ]
        assert deeds.done == ["call_1"]
        assert (await second.lines(chat_id))[-1] == "answer: End."
        assert await second.journal(chat_id) == {}


@pytest.mark.parametrize("effect", ["pure", "idempotent", "once"])
async def test_a_result_that_was_recorded_is_used_again(
    db: Database, clock: Clock, deeds: Deeds, effect: Effect
) -> None:
    model = ScriptedModel([[call("sibling"), call("deed")]], default="End.")
    tools = [deeds.sibling(), deeds.deed(effect, long=False)]
    async with living(db, model, tools, clock=clock) as first:
        chat_id = await first.begin()
        await dies(first, deeds)
        assert (await first.journal(chat_id))["deed"].state == "finished"
    async with living(db, model, tools, clock=clock, seed=1) as second:
        await second.rest(chat_id)
        made = [outcome(one) for one in results_of(await second.history(chat_id))]
        assert made == [("ok", "slow"), DONE]
        assert deeds.done == ["call_2"]


async def test_what_a_call_wants_written_is_written_with_its_result_or_not_at_all(
    db: Database, clock: Clock, deeds: Deeds
) -> None:
    """A result beside a slow sibling must not be kept without the child that it speaks of."""
    model = ScriptedModel([[call("sibling"), call("deed")]], default="End.")
    tools = [deeds.sibling(), deeds.deed("commit", long=False)]
    async with living(db, model, tools, clock=clock) as first:
        chat_id = await first.begin()
        await dies(first, deeds)
    async with living(db, model, tools, clock=clock, seed=1) as second:
        await second.rest(chat_id)
        made = [outcome(one) for one in results_of(await second.history(chat_id))]
        assert made == [("ok", "slow"), DONE]
        children = await db.read(lambda tx: list_chats(tx, parent=chat_id))
        assert len(children) == 1


async def test_an_interrupt_that_comes_before_the_commit_leaves_no_word_of_a_child_that_is_not(
    db: Database, clock: Clock, deeds: Deeds
) -> None:
    model = ScriptedModel([call("deed")], default="End.")
    async with living(db, model, [deeds.deed("commit", long=False)], clock=clock) as life:
        life.faulty_db.hold("commit_step")
        chat_id = await life.begin()
        await anyio.sleep(1)
        assert life.faulty_db.waiting == ["commit_step"]
        await life.do(user.interrupt, chat_id)
        life.faulty_db.resume()
        await life.rest(chat_id)
        (made,) = results_of(await life.history(chat_id))
        children = await db.read(lambda tx: list_chats(tx, parent=chat_id))
        assert (made.outcome, len(children)) == ("interrupted", 0)


async def test_a_worker_that_goes_keeps_no_result_without_its_writes(
    db: Database, clock: Clock, deeds: Deeds
) -> None:
    model = ScriptedModel([[call("deed"), call("sibling")]], default="End.")
    tools = [deeds.deed("commit", long=False), deeds.sibling()]
    async with living(db, model, tools, clock=clock, options=IMPATIENT) as first:
        chat_id = await first.begin()
        await anyio.sleep(3)
        await first.stop()
        assert await first.journal(chat_id) == {}
    deeds.hold.set()
    async with living(db, model, tools, clock=clock, seed=1) as second:
        await second.rest(chat_id)
        made = [outcome(one) for one in results_of(await second.history(chat_id))]
        children = await db.read(lambda tx: list_chats(tx, parent=chat_id))
        assert (made, len(children)) == ([DONE, ("ok", "slow")], 1)


async def test_a_call_whose_start_was_not_acknowledged_is_run_by_who_started_it(
    db: Database, clock: Clock, deeds: Deeds
) -> None:
    model = ScriptedModel([call("deed"), "End."])
    async with living(db, model, [deeds.deed("once", long=False)], clock=clock) as life:
        life.faulty_db.lose("start_calls")
        chat_id = await life.begin()
        await life.rest(chat_id)
        assert life.faulty_db.writes["start_calls"] == 2
        assert [outcome(one) for one in results_of(await life.history(chat_id))] == [DONE]
        assert deeds.done == ["call_1"]


async def test_a_call_that_is_about_to_begin_is_not_disturbed_by_a_title(
    db: Database, clock: Clock, deeds: Deeds
) -> None:
    asked: list[str] = []

    async def gate(_context: Context, call: object, arguments: object) -> None:
        asked.append("gate")

    model = ScriptedModel([call("deed"), "End."])
    async with living(db, model, [deeds.deed("once", long=False)], clock=clock, gate=gate) as life:
        life.faulty_db.hold("start_calls")
        chat_id = await life.begin()
        await anyio.sleep(1)
        await life.do(user.update, chat_id, {"title": "t"})
        life.faulty_db.resume()
        await life.rest(chat_id)
        assert [outcome(one) for one in results_of(await life.history(chat_id))] == [DONE]
        assert deeds.done == ["call_1"]
        assert asked == ["gate"]


async def test_nothing_is_begun_before_its_start_is_durable(
    db: Database, clock: Clock, deeds: Deeds
) -> None:
    model = ScriptedModel([call("deed"), "End."])
    async with living(db, model, [deeds.deed("once", long=False)], clock=clock) as life:
        life.faulty_db.hold("start_calls")
        chat_id = await life.begin()
        await anyio.sleep(60)
        assert deeds.done == []
        life.faulty_db.resume()
        await life.rest(chat_id)
        assert deeds.done == ["call_1"]


async def test_a_second_crash_does_not_run_it_either(
    db: Database, clock: Clock, deeds: Deeds
) -> None:
    model = ScriptedModel([[call("deed"), call("sibling")]], default="End.")
    tools = [deeds.deed("once"), deeds.sibling()]
    async with living(db, model, tools, clock=clock) as first:
        chat_id = await first.begin()
        await anyio.sleep(3)
        await first.die()
    async with living(db, model, tools, clock=clock, seed=1) as second:
        await anyio.sleep(30)
        await second.die()
    deeds.hold.set()
    async with living(db, model, tools, clock=clock, seed=2) as third:
        await third.rest(chat_id)
        made = [outcome(one) for one in results_of(await third.history(chat_id))]
        assert made == [("lost", LOST), ("ok", "slow")]
        assert deeds.done == ["call_1"]


async def test_results_recorded_beside_others_leave_nothing_in_the_journal(
    db: Database, clock: Clock
) -> None:
    """Also when nobody tells the runner of its own writes, and when all end at the same time."""

    @tool(effect="pure")
    async def wait(seconds: float) -> float:
        await anyio.sleep(seconds)
        return seconds

    script: list[Any] = [[call("wait", seconds=s) for s in (1, 1, 1)], "One."]
    script += [[call("wait", seconds=s) for s in (1, 2, 3)], "Two."]
    async with living(db, script, [wait], clock=clock) as life:
        life.faulty_db.notices = lambda notice, hear: None
        chat_id = await life.begin()
        await life.rest(chat_id)
        assert await life.journal(chat_id) == {}
        await life.send(chat_id, "again")
        await life.rest(chat_id)
        assert await life.journal(chat_id) == {}


async def test_a_result_that_is_still_being_recorded_is_waited_for(
    db: Database, clock: Clock
) -> None:
    @tool(effect="pure")
    async def wait(seconds: float) -> float:
        await anyio.sleep(seconds)
        return seconds

    async with living(
        db, [[call("wait", seconds=0.5), call("wait", seconds=1)], "Done."], [wait], clock=clock
    ) as life:
        chat_id = await life.begin()
        await life.faulty_db.committing("finish_call", anyio.lowlevel.checkpoint)
        await life.rest(chat_id)
        assert len(results_of(await life.history(chat_id))) == 2
        assert await life.journal(chat_id) == {}


@pytest.mark.parametrize("how", ["steer", "interrupt", "edit"])
async def test_a_call_that_is_stopped_as_it_starts_leaves_nothing_in_the_journal(
    db: Database, clock: Clock, deeds: Deeds, how: str
) -> None:
    model = ScriptedModel([call("deed")], default="End.")
    async with living(db, model, [deeds.deed("once", long=False)], clock=clock) as life:
        chat_id = await life.begin()
        acts: dict[str, Callable[[], Any]] = {
            "steer": lambda: life.send(chat_id, "stop that", "steer"),
            "interrupt": lambda: life.do(user.interrupt, chat_id),
            "edit": lambda: life.do(user.edit, chat_id, 1, user_message("else")),
        }
        await life.faulty_db.committing("start_calls", acts[how])
        await life.rest(chat_id)
        assert await life.journal(chat_id) == {}
        assert (await life.lines(chat_id))[-1] != "answer: →deed"


async def test_a_finished_call_is_not_run_again_when_only_its_commit_fails(
    db: Database, clock: Clock, deeds: Deeds
) -> None:
    model = ScriptedModel([call("deed"), [pause(1), "End."]])
    async with living(db, model, [deeds.deed("once", long=False)], clock=clock) as life:
        life.faulty_db.lose("commit_step", 3)
        chat_id = await life.begin()
        await life.rest(chat_id)
        assert [outcome(one) for one in results_of(await life.history(chat_id))] == [DONE]
        assert deeds.done == ["call_1"]


async def test_what_people_are_shown_of_a_failure_is_not_what_asks_for_a_call(
    db: Database, clock: Clock, deeds: Deeds
) -> None:
    model = ScriptedModel([call("deed")], default="End.")
    async with living(db, model, [deeds.deed("once")], clock=clock) as first:
        chat_id = await first.begin()
        first.faulty_db.hold("start_calls")
        await dies(first, deeds)
        fence = fence_of(await first.chat(chat_id))
    shown = Message("assistant", (Text("Half of it"),), "answer", "user")
    await db.write(lambda tx: runner.fail(tx, fence, Failure("internal", "no"), shown))
    await db.write(lambda tx: user.retry(tx, chat_id))
    async with living(db, model, [deeds.deed("once")], clock=clock, seed=1) as second:
        await second.rest(chat_id)
        assert deeds.done == ["call_1"]
        await doctor.check(db)
