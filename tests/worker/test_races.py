"""What goes wrong only when two things happen at once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, TypeVar

import anyio
from msgspec.structs import replace

from holdfast.chat.transitions import user
from holdfast.kernel.messages import user_message
from holdfast.kernel.model import Delta, Request
from holdfast.kernel.tool import tool
from holdfast.store.database import Database, StoreError, Transaction
from holdfast.testing import Clock, ScriptedModel, call, fail, pause, say, think, usage
from tests.worker.faulty_database import name_of
from tests.worker.workers import SECOND, fail_next_read, living, results_of, spent_input

T = TypeVar("T")


async def test_a_once_tool_is_not_run_again_when_its_chat_gets_another_runner(
    db: Database, clock: Clock
) -> None:
    ran: list[str] = []

    @tool(effect="once")
    async def charge() -> str:
        ran.append("charge")
        await anyio.sleep(20)
        return "charged"

    async with living(db, [call("charge"), "Done."], [charge], clock=clock) as life:
        chat_id = await life.begin()
        await anyio.sleep(1)
        fail_next_read(life, RuntimeError("a defect of our own"))
        await life.do(user.update, chat_id, {"title": "news"})
        await life.rest(chat_id)
        assert ran == ["charge"]


async def test_a_tool_is_stopped_by_an_interrupt_that_comes_just_before_it_begins(
    db: Database, clock: Clock
) -> None:
    @tool(effect="pure")
    async def slow() -> str:
        await anyio.sleep(300)
        return "slept"

    async with living(db, [[pause(5), call("slow")], "Done."], [slow], clock=clock) as life:
        chat_id = await life.begin()
        await anyio.sleep(1)
        await life.do(user.update, chat_id, {"title": "news"})  # the journal has to be read again
        await anyio.sleep(1)
        read = life.faulty_db.read

        async def catching_up(transaction: Transaction[T], *, short: bool = False) -> T:
            if (await life.chat(chat_id)).messages < 2:
                return await read(transaction, short=short)
            life.faulty_db.read = read  # type: ignore[method-assign]
            made = await read(transaction, short=short)
            await life.do(user.interrupt, chat_id)
            await anyio.sleep(1)
            return made

        life.faulty_db.read = catching_up  # type: ignore[method-assign]
        await life.until(chat_id, lambda chat: chat.status == "interrupting")
        before = clock.now()
        await life.rest(chat_id)
        assert clock.now() - before < 10 * SECOND


async def test_a_model_that_was_chosen_while_a_step_was_being_committed_is_used(
    db: Database, clock: Clock
) -> None:
    @tool(effect="pure")
    async def look() -> str:
        return "seen"

    async with living(db, [[pause(5), call("look")], "Done."], [look], clock=clock) as life:
        chat_id = await life.begin()
        await anyio.sleep(1)
        life.faulty_db.hold("commit")
        await anyio.sleep(10)
        assert life.faulty_db.waiting == ["commit"]
        await life.do(user.update, chat_id, {"effort": "high"})
        life.faulty_db.resume()
        await life.rest(chat_id)
        model = life.agent.model
        assert isinstance(model, ScriptedModel)
        assert [request.effort for request in model.requests][1:] == ["high"]


async def test_a_notice_that_cannot_be_looked_at_disturbs_no_step(
    db: Database, clock: Clock
) -> None:
    @tool(effect="once")
    async def charge() -> str:
        await anyio.sleep(20)
        return "charged"

    async with living(db, [call("charge"), "Done."], [charge], clock=clock) as life:
        chat_id = await life.begin()
        await anyio.sleep(1)
        fail_next_read(life, StoreError("refused for no reason"))
        await life.do(user.update, chat_id, {"title": "news"})
        await life.rest(chat_id)
        assert [one.outcome for one in results_of(await life.history(chat_id))] == ["ok"]


async def test_a_notice_that_could_not_be_looked_at_is_looked_at_with_the_next_poll(
    db: Database, clock: Clock
) -> None:
    async with living(db, [[pause(300), "Done."]], clock=clock) as life:
        chat_id = await life.begin()
        await anyio.sleep(1)
        fail_next_read(life, StoreError("refused for no reason"))
        await life.do(user.interrupt, chat_id)
        before = clock.now()
        await life.rest(chat_id)
        assert clock.now() - before < 10 * SECOND


async def test_no_tool_outlives_a_runner_that_ended_by_a_defect(db: Database, clock: Clock) -> None:
    running: list[str] = []

    @tool(effect="pure")
    async def look() -> str:
        running.append("look")
        try:
            await anyio.sleep(100)
        finally:
            running.pop()
        return "seen"

    async with living(db, [[call("look"), pause(50)], "Done."], [look], clock=clock) as life:
        chat_id = await life.begin()
        await anyio.sleep(1)
        assert running == ["look"]
        fail_next_read(life, RuntimeError("a defect of our own"))
        await life.do(user.update, chat_id, {"title": "news"})
        await anyio.sleep(1)
        assert running == []
        await life.rest(chat_id)


async def test_a_chat_whose_runner_always_ends_by_a_defect_is_parked(
    db: Database, clock: Clock
) -> None:
    """It would be asked for again and again, at somebody's cost, and nobody would see it."""
    model = ScriptedModel([], default=[say("Well"), pause(5), say(" done.")])
    async with living(db, model, clock=clock) as life:
        write = life.faulty_db.write

        async def defective(transaction: Transaction[T], *, short: bool = False) -> T:
            if name_of(transaction) == "write_partial":
                raise RuntimeError("a defect of our own")
            return await write(transaction, short=short)

        life.faulty_db.write = defective  # type: ignore[method-assign]
        chat_id = await life.begin()
        chat = await life.rest(chat_id)
        assert chat.error is not None
        assert chat.error.kind == "poison"
        assert len(model.requests) == 3


async def test_the_next_attempt_waits_also_when_the_database_did_not_say_that_it_has_to(
    db: Database, clock: Clock
) -> None:
    began: list[int] = []

    class Timed(ScriptedModel):
        def stream(self, request: Request) -> AsyncIterator[Delta]:
            began.append(clock.now())
            return super().stream(request)

    model = Timed([fail(kind="rate_limit", retry_after=20), "Done."])
    async with living(db, model, clock=clock) as life:
        life.faulty_db.lose("record_retry")
        chat_id = await life.begin()
        await life.rest(chat_id)
        first, second = began
        assert second - first >= 19 * SECOND


async def test_what_an_answer_cost_that_an_edit_abandoned_is_counted(
    db: Database, clock: Clock
) -> None:
    """It was whole, and its commit came too late."""
    script = [[usage(input=7), say("Old.")], [usage(input=5), say("New.")]]
    async with living(db, script, clock=clock) as life:
        life.faulty_db.hold("commit")
        chat_id = await life.begin()
        await anyio.sleep(1)
        await life.do(user.edit, chat_id, 1, user_message("else"))
        life.faulty_db.resume()
        await life.rest(chat_id)
        assert await spent_input(life, chat_id) == 12


async def test_what_a_committed_answer_cost_is_counted_once_when_nobody_heard_of_it_before_an_edit(
    db: Database, clock: Clock
) -> None:
    script = [[usage(input=7), say("Old.")], [usage(input=5), say("New.")]]
    async with living(db, script, clock=clock) as life:
        life.faulty_db.lose("commit")

        async def edit() -> None:
            await life.do(user.edit, chat_id, 1, user_message("else"))

        async with anyio.create_task_group() as group:
            group.start_soon(life.faulty_db.committing, "commit", edit)
            await anyio.lowlevel.checkpoint()
            chat_id = await life.begin()
        await life.rest(chat_id)
        assert await spent_input(life, chat_id) == 12


async def test_what_arrived_of_an_attempt_that_failed_is_not_written_down_for_the_next(
    db: Database, clock: Clock
) -> None:
    """It is time to write it down in the very moment in which the database says that it failed."""
    script = [[say("Half"), pause(0.5), fail(status=503)], [pause(20), say("Done.")]]
    async with living(db, script, clock=clock) as life:
        write = life.faulty_db.write

        async def slowly(transaction: Transaction[T], *, short: bool = False) -> T:
            made = await write(transaction, short=short)
            if name_of(transaction) == "record_retry":
                await anyio.sleep(0.5)
            return made

        life.faulty_db.write = slowly  # type: ignore[method-assign]
        chat_id = await life.begin()
        await anyio.sleep(10)
        assert life.faulty_db.writes["write_partial"] == 1
        assert (await life.chat(chat_id)).attempt == 2
        assert await life.partial(chat_id) is None
        await life.rest(chat_id)


async def test_what_is_our_own_doing_is_no_news_however_late_it_is_looked_at(
    db: Database, clock: Clock
) -> None:
    """Somebody is heard of, and by the time that the chat is read, our own commit is in it."""
    stopped: list[bool] = []

    @tool(effect="pure")
    async def look() -> str:
        return "seen"

    async with living(db, [[pause(5), call("look")], "Done."], [look], clock=clock) as life:
        chat_id = await life.begin()
        await anyio.sleep(1)
        read, committed = life.faulty_db.read, anyio.Event()

        async def late(transaction: Transaction[T], *, short: bool = False) -> T:
            life.faulty_db.read = read  # type: ignore[method-assign]
            await committed.wait()
            return await read(transaction, short=short)

        async def look_at_it() -> None:
            committed.set()
            await anyio.sleep(0.5)
            scope = life.worker._runners[chat_id]._scope
            stopped.append(scope.interruption.requested)

        life.faulty_db.read = late  # type: ignore[method-assign]
        await life.do(user.update, chat_id, {"title": "news"})
        await life.faulty_db.committing("commit", look_at_it)
        await life.rest(chat_id)
        assert stopped == [False]
        assert await life.lines(chat_id) == [
            "prompt: ?",
            "answer: →look",
            "results: ok seen",
            "answer: Done.",
        ]


async def test_steering_that_is_heard_of_while_the_chat_is_being_read_is_not_forgotten(
    db: Database, clock: Clock
) -> None:
    """To read a long history takes longer than to look at what is new."""

    @tool(effect="pure")
    async def look() -> str:
        return "seen"

    async with living(db, [call("look"), "Done.", "More."], [look], clock=clock) as life:
        read = life.faulty_db.read

        async def overtaken(transaction: Transaction[T], *, short: bool = False) -> T:
            made = await read(transaction, short=short)
            if name_of(transaction) == "load":
                life.faulty_db.read = read  # type: ignore[method-assign]
                await life.send(chat_id, "hurry", "steer")
                await anyio.sleep(1)
            return made

        await life.hold()
        chat_id = await life.begin()
        life.faulty_db.read = overtaken  # type: ignore[method-assign]
        life.faulty_db.resume()
        await life.rest(chat_id)
        assert (await life.lines(chat_id))[:2] == ["prompt: ?", "prompt: hurry"]


async def test_what_an_attempt_said_that_failed_is_kept_when_the_chat_was_stopped_just_then(
    db: Database, clock: Clock
) -> None:
    script = [[say("Half"), pause(1), fail(status=503)], "Not asked."]
    async with living(db, script, clock=clock) as life:
        life.faulty_db.hold("record_retry")
        chat_id = await life.begin()
        await anyio.sleep(5)
        assert life.faulty_db.waiting == ["record_retry"]
        await life.do(user.interrupt, chat_id)
        life.faulty_db.resume()
        await life.rest(chat_id)
        assert (await life.lines(chat_id))[:2] == ["prompt: ?", "answer: Half"]


async def test_what_an_attempt_cost_that_failed_is_counted_when_an_edit_came_just_then(
    db: Database, clock: Clock
) -> None:
    """It said nothing, which is paid for all the same."""
    script = [[usage(input=7)], [usage(input=5), say("New.")]]
    async with living(db, script, clock=clock) as life:
        life.faulty_db.hold("record_retry")
        chat_id = await life.begin()
        await anyio.sleep(1)
        assert life.faulty_db.waiting == ["record_retry"]
        await life.do(user.edit, chat_id, 1, user_message("else"))
        life.faulty_db.resume()
        await life.rest(chat_id)
        assert await spent_input(life, chat_id) == 12


async def test_what_an_attempt_cost_that_failed_is_counted_once_when_nobody_heard_of_it(
    db: Database, clock: Clock
) -> None:
    """The chat is stopped between the commit and the moment in which its runner looks."""
    script = [[usage(input=7), think("hm")], "Not asked."]
    async with living(db, script, clock=clock) as life:
        life.faulty_db.lose("record_retry")

        async def stop() -> None:
            await life.do(user.interrupt, chat_id)

        async with anyio.create_task_group() as group:
            group.start_soon(life.faulty_db.committing, "record_retry", stop)
            await anyio.lowlevel.checkpoint()
            chat_id = await life.begin()
        await life.rest(chat_id)
        assert await spent_input(life, chat_id) == 7


async def test_a_database_that_forgot_what_was_seen_is_asked_once_and_not_again_and_again(
    db: Database, clock: Clock
) -> None:
    """A replica of it took over that was behind."""
    async with living(db, [fail(status=503), "Done."], clock=clock) as life:
        read, asked = life.faulty_db.read, list[str]()

        async def forgetful(transaction: Transaction[T], *, short: bool = False) -> T:
            asked.append(name_of(transaction))
            made: Any = await read(transaction, short=short)
            if asked == ["read_row_and_queue"]:
                chat, queue = made
                made = replace(chat, snapshot_version=chat.snapshot_version + 100), queue
            return made  # type: ignore[no-any-return]

        chat_id = await life.begin()
        await anyio.sleep(0.1)
        assert (await life.chat(chat_id)).retry is not None
        life.faulty_db.read = forgetful  # type: ignore[method-assign]
        await life.do(user.update, chat_id, {"title": "news"})
        await life.rest(chat_id)
        assert asked.count("load") == 1
        assert asked.count("read_row_and_queue") <= 3
        assert (await life.lines(chat_id))[-1] == "answer: Done."
