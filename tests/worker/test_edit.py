"""A person says something else instead: what was going on is over, and leaves nothing behind."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from holdfast.chat.transitions import user
from holdfast.kernel.messages import user_message
from holdfast.kernel.tool import tool
from holdfast.store.database import Database, Tx
from holdfast.testing import Clock, call, fail, hang, pause, say
from tests.worker.workers import SECOND, Life, asks, living


async def edit(life: Life, chat_id: str, text: str = "else", number: int = 1) -> Any:
    return await life.do(user.edit, chat_id, number, user_message(text))


async def outcomes(db: Database, chat_id: str) -> dict[str, str]:
    """What the journal says of calls that are over."""

    async def read(tx: Tx) -> dict[str, str]:
        rows = await tx.fetch(
            "SELECT tool, state, outcome FROM tool_calls WHERE chat_id = :id", {"id": chat_id}
        )
        return {tool: f"{state} {outcome}" for tool, state, outcome in rows}

    return await db.read(read)


async def test_an_answer_that_is_no_longer_wanted_writes_nothing(
    db: Database, clock: Clock
) -> None:
    async with living(db, [[say("Half"), pause(60), "…"], "Else."], clock=clock) as life:
        chat_id = await life.begin()
        await anyio.sleep(3)
        before = clock.now()
        await edit(life, chat_id)
        await life.rest(chat_id)
        assert clock.now() - before < SECOND
        assert await life.lines(chat_id) == ["prompt: else", "answer: Else."]
        assert await life.partial(chat_id) is None


async def test_an_answer_that_came_too_late_is_not_committed(db: Database, clock: Clock) -> None:
    async with living(db, ["Old.", "Else."], clock=clock) as life:
        life.faulty_db.hold("commit")
        chat_id = await life.begin()
        await anyio.sleep(3)
        await edit(life, chat_id)
        life.faulty_db.resume()
        await life.rest(chat_id)
        assert await life.lines(chat_id) == ["prompt: else", "answer: Else."]


async def test_a_tool_is_stopped_and_its_call_is_closed_as_edited(
    db: Database, clock: Clock
) -> None:
    began: list[float] = []
    ended: list[float] = []

    @tool(effect="once")
    async def slow() -> str:
        began.append(anyio.current_time())
        try:
            await anyio.sleep(3600)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(2)  # it cleans up
            ended.append(anyio.current_time())
        return "never"

    @tool(effect="once")
    async def next() -> str:
        began.append(anyio.current_time())
        return "done"

    script = [call("slow"), call("next"), "Else."]
    async with living(db, script, [slow, next], clock=clock) as life:
        chat_id = await life.begin()
        await anyio.sleep(3)
        await edit(life, chat_id)
        assert await outcomes(db, chat_id) == {"slow": "finished edited"}
        await life.rest(chat_id)
        assert await life.lines(chat_id) == [
            "prompt: else",
            "answer: →next",
            "results: ok done",
            "answer: Else.",
        ]
        # Nothing with an effect begins before what was abandoned has unwound.
        assert began[1] >= ended[0]
        assert await outcomes(db, chat_id) == {"slow": "finished edited", "next": "finished ok"}


async def test_a_tool_that_does_not_obey_is_waited_for_no_longer_than_its_grace(
    db: Database, clock: Clock
) -> None:
    let_go = anyio.Event()

    @tool(effect="once")
    async def stubborn() -> str:
        while not let_go.is_set():
            try:
                await let_go.wait()
            except BaseException:
                continue
        return "too late"

    async with living(db, [call("stubborn"), "Else."], [stubborn], clock=clock) as life:
        chat_id = await life.begin()
        await anyio.sleep(3)
        before = clock.now()
        await edit(life, chat_id)
        await life.rest(chat_id)
        assert 4 * SECOND < clock.now() - before < 6 * SECOND
        let_go.set()
        await anyio.sleep(5)
        assert await life.lines(chat_id) == ["prompt: else", "answer: Else."]


async def test_a_result_that_comes_too_late_is_not_recorded(db: Database, clock: Clock) -> None:
    """The call that it is of has been superseded, and so has everything about it."""

    @tool(effect="once", parallel=True)
    async def quick() -> str:
        await anyio.sleep(2)
        return "quick"

    @tool(effect="once", parallel=True)
    async def slow() -> str:
        await anyio.sleep(3600)
        return "never"

    async with living(
        db, [[call("quick"), call("slow")], "Else."], [quick, slow], clock=clock
    ) as life:
        life.faulty_db.hold("finish_call")
        chat_id = await life.begin()
        await anyio.sleep(3)
        assert life.faulty_db.waiting == ["finish_call"]
        await edit(life, chat_id)
        life.faulty_db.resume()
        await life.rest(chat_id)
        assert await life.lines(chat_id) == ["prompt: else", "answer: Else."]
        assert await outcomes(db, chat_id) == {
            "quick": "finished edited",
            "slow": "finished edited",
        }


async def test_results_that_are_being_committed_are_not_when_they_come_too_late(
    db: Database, clock: Clock
) -> None:
    @tool(effect="once")
    async def act() -> str:
        return "done"

    async with living(db, [call("act"), "Else."], [act], clock=clock) as life:
        life.faulty_db.hold("commit_step")
        chat_id = await life.begin()
        await anyio.sleep(3)
        await edit(life, chat_id)
        life.faulty_db.resume()
        await life.rest(chat_id)
        assert await life.lines(chat_id) == ["prompt: else", "answer: Else."]
        assert await outcomes(db, chat_id) == {"act": "finished edited"}


async def test_an_action_that_was_waited_for_is_void(db: Database, clock: Clock) -> None:
    async with living(db, [call("asks"), "Else."], [asks], clock=clock) as life:
        chat_id = await life.begin()
        await life.until(chat_id, lambda chat: chat.status == "requires_action")
        await edit(life, chat_id)
        await life.rest(chat_id)
        assert await life.lines(chat_id) == ["prompt: else", "answer: Else."]
        assert await outcomes(db, chat_id) == {"asks": "finished edited"}


async def test_an_error_is_left_behind(db: Database, clock: Clock) -> None:
    async with living(db, [fail(kind="auth"), "Else."], clock=clock) as life:
        chat_id = await life.begin()
        assert (await life.rest(chat_id)).status == "error"
        await edit(life, chat_id)
        chat = await life.rest(chat_id)
        assert (chat.status, chat.error) == ("idle", None)
        assert await life.lines(chat_id) == ["prompt: else", "answer: Else."]


async def test_a_chat_at_rest_goes_back(db: Database, clock: Clock) -> None:
    async with living(db, ["One.", "Two.", "Else."], clock=clock) as life:
        chat_id = await life.begin("1")
        await life.rest(chat_id)
        await life.send(chat_id, "2")
        await life.rest(chat_id)
        edited = await edit(life, chat_id, number=3)
        assert edited.superseded == (3, 4)
        await life.rest(chat_id)
        assert await life.lines(chat_id) == [
            "prompt: 1",
            "answer: One.",
            "prompt: else",
            "answer: Else.",
        ]
        assert [stored.number for stored in await life.stored(chat_id)] == [1, 2, 5, 6]


@pytest.mark.parametrize("seconds", [25, 250])
async def test_a_wait_for_the_next_attempt_is_over(
    db: Database, clock: Clock, seconds: float
) -> None:
    async with living(
        db, [fail(kind="rate_limit", retry_after=seconds), "Else."], clock=clock
    ) as life:
        chat_id = await life.begin()
        await life.until(chat_id, lambda chat: chat.retry is not None)
        await anyio.sleep(2)
        before = clock.now()
        await edit(life, chat_id)
        await life.rest(chat_id)
        assert clock.now() - before < SECOND
        assert await life.lines(chat_id) == ["prompt: else", "answer: Else."]


async def test_what_was_queued_is_dropped_and_given_back(db: Database, clock: Clock) -> None:
    async with living(db, [[hang()], "Else."], clock=clock) as life:
        chat_id = await life.begin()
        await anyio.sleep(1)
        await life.send(chat_id, "later")
        edited = await edit(life, chat_id)
        assert [one.message.text for one in edited.dropped] == ["later"]
        await life.rest(chat_id)
        assert await life.lines(chat_id) == ["prompt: else", "answer: Else."]


async def test_a_chat_that_is_being_stopped_goes_on_with_what_was_said_instead(
    db: Database, clock: Clock
) -> None:
    async with living(db, [[say("Half"), hang()], "Else."], clock=clock) as life:
        life.faulty_db.hold("settle")
        chat_id = await life.begin()
        await anyio.sleep(2)
        await life.do(user.interrupt, chat_id)
        await anyio.sleep(1)
        await edit(life, chat_id)
        life.faulty_db.resume()
        await life.rest(chat_id)
        assert await life.lines(chat_id) == ["prompt: else", "answer: Else."]


async def test_edits_in_a_row_end_with_the_last(db: Database, clock: Clock) -> None:
    async with living(db, [[pause(9), "…"]] * 3 + ["Last."], clock=clock) as life:
        chat_id = await life.begin()
        number = 1
        for text in ("a", "b", "c"):
            await anyio.sleep(1)
            number = (await edit(life, chat_id, text, number)).number
        await life.rest(chat_id)
        assert await life.lines(chat_id) == ["prompt: c", "answer: Last."]


async def test_the_next_worker_does_not_run_what_was_edited_away(
    db: Database, clock: Clock
) -> None:
    ran: list[str] = []

    @tool(effect="idempotent")
    async def act() -> str:
        ran.append("act")
        await anyio.sleep(3600)
        return "never"

    async with living(db, [call("act")], [act], clock=clock) as first:
        chat_id = await first.begin()
        await anyio.sleep(3)
        await first.die()
        await edit(first, chat_id)
    async with living(db, ["Else."], [act], clock=clock, seed=1) as second:
        await second.rest(chat_id)
        assert await second.lines(chat_id) == ["prompt: else", "answer: Else."]
        assert ran == ["act"]
