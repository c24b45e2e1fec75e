"""What can be seen of an answer while it arrives, and for how long."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import anyio

from holdfast.chat.transitions import user
from holdfast.kernel.policy import Policy, Retry
from holdfast.kernel.tool import ToolContext, tool
from holdfast.live.broadcast import AttemptReset, DeltaReader, LiveEvent
from holdfast.live.buffer import AttemptId, DeltaRange
from holdfast.store.database import Database
from holdfast.testing import Clock, ScriptedModel, call, cut, fail, hang, pause, say
from tests.worker.workers import Life, living


def texts(taken: Sequence[LiveEvent], attempt: AttemptId | None = None) -> str:
    """What was shown, joined."""
    deltas = [one for one in taken if isinstance(one, DeltaRange)]
    if attempt is not None:
        deltas = [one for one in deltas if one.attempt == attempt]
    return "".join(getattr(one.fragment, "text", "") for one in deltas)


def attempts(taken: Sequence[LiveEvent]) -> list[AttemptId]:
    """Whose deltas and resets these are, each once, in order."""
    return list(dict.fromkeys(one.attempt for one in taken))


@asynccontextmanager
async def watching(life: Life, chat_id: str) -> AsyncIterator[list[LiveEvent]]:
    """Everything that a reader is shown, as it comes."""
    shown: list[LiveEvent] = []

    async def watch(reader: DeltaReader) -> None:
        while True:
            await reader.wait()
            shown.extend(reader.take())

    async with life.live.read(chat_id) as reader, anyio.create_task_group() as group:
        group.start_soon(watch, reader)
        yield shown
        await anyio.sleep(1)
        group.cancel_scope.cancel()


async def test_what_arrives_can_be_read_while_it_does(db: Database, clock: Clock) -> None:
    script = [[say("One"), pause(5), say(" two"), pause(5), say(".")]]
    async with living(db, script, clock=clock) as life:
        chat_id = await life.begin()
        chat = await life.until(chat_id, lambda chat: chat.worker_id is not None)
        key = AttemptId(chat.epoch, chat.history_version, chat.attempt)
        async with watching(life, chat_id) as shown:
            await anyio.sleep(1)
            assert (attempts(shown), texts(shown)) == ([key], "One")
            await anyio.sleep(5)
            assert texts(shown) == "One two"
            await life.rest(chat_id)
        assert texts(shown, key) == "One two."
        assert shown[-1] == AttemptReset(key)
        assert len(life.live) == 0


async def test_who_comes_late_is_shown_it_from_the_start(db: Database, clock: Clock) -> None:
    async with living(db, [[say("One"), pause(2), say(" two"), pause(5)]], clock=clock) as life:
        chat_id = await life.begin()
        await anyio.sleep(3)
        async with life.live.read(chat_id) as reader:
            assert texts(reader.take()) == "One two"
        await life.rest(chat_id)


async def test_an_attempt_that_failed_is_taken_back(db: Database, clock: Clock) -> None:
    policy = Policy(retry=Retry(first_delay=4))
    script = [[say("Wrong"), pause(2), cut()], [say("Right"), pause(2)]]
    async with living(db, script, clock=clock, policy=policy) as life:
        chat_id = await life.begin()
        async with watching(life, chat_id) as shown:
            await anyio.sleep(1)
            assert texts(shown) == "Wrong"
            (first,) = attempts(shown)
            waiting = await life.until(chat_id, lambda chat: chat.retry is not None)
            assert waiting.attempt == 2
            assert shown[-1] == AttemptReset(first)
            await life.rest(chat_id)
        second = AttemptId(first.epoch, first.history_version, 2)
        assert attempts(shown) == [first, second]
        assert texts(shown, second) == "Right"
        assert shown[-1] == AttemptReset(second)


async def test_an_attempt_is_taken_back_when_the_next_one_is_so_far_away_that_the_chat_is_released(
    db: Database, clock: Clock
) -> None:
    script = [[say("Wrong"), pause(2), fail(kind="rate_limit", retry_after=100)], "Right."]
    async with living(db, script, clock=clock) as life:
        chat_id = await life.begin()
        async with watching(life, chat_id) as shown:
            await anyio.sleep(1)
            assert texts(shown) == "Wrong"
            (first,) = attempts(shown)
            waiting = await life.until(chat_id, lambda chat: chat.retry is not None)
            assert waiting.worker_id is None
            await anyio.sleep(1)
            assert shown[-1] == AttemptReset(first)
            assert life.live.partial(chat_id) is None
            await life.rest(chat_id)
        assert texts(shown) == "WrongRight."


async def test_another_worker_is_another_attempt(db: Database, clock: Clock) -> None:
    model = ScriptedModel([[say("Half"), hang()], [say("Whole"), pause(5)]])
    async with living(db, model, clock=clock) as first:
        chat_id = await first.begin()
        await anyio.sleep(2)
        async with first.live.read(chat_id) as reader:
            (before,) = attempts(reader.take())
        await first.die()
    async with living(db, model, clock=clock, seed=1) as second:
        await second.until(chat_id, lambda chat: chat.epoch == 2)
        await anyio.sleep(1)
        async with second.live.read(chat_id) as reader:
            taken = reader.take()
            assert attempts(taken) == [AttemptId(2, before.history_version, before.attempt)]
            assert texts(taken) == "Whole"
        await second.rest(chat_id)


async def test_the_deltas_of_the_attempt_that_won_are_the_committed_text(
    db: Database, clock: Clock
) -> None:
    script = [[say("A long answer, in pieces.", chunks=9), pause(1)]]
    async with living(db, script, clock=clock) as life:
        chat_id = await life.begin()
        async with watching(life, chat_id) as shown:
            await life.rest(chat_id)
        assert texts(shown) == (await life.history(chat_id))[-1].text


async def test_calls_are_seen_from_the_answer_that_asks_to_their_end(
    db: Database, clock: Clock
) -> None:
    @tool(effect="once")
    async def work(context: ToolContext) -> str:
        await context.progress("half way")
        await anyio.sleep(5)
        return "worked"

    async with living(db, [call("work"), [pause(5), "Done."]], [work], clock=clock) as life:
        chat_id = await life.begin()
        async with life.live.read(chat_id) as reader:
            await anyio.sleep(2)
            taken = reader.take()
            chat = await life.chat(chat_id)
            now = AttemptId(chat.epoch, chat.history_version, chat.attempt)
            shown = [one for one in taken if isinstance(one, DeltaRange) and one.attempt == now]
            assert "half way" in str(shown)
            await anyio.sleep(5)
            assert AttemptReset(now) in reader.take()
        await life.rest(chat_id)


async def test_what_was_stopped_or_edited_away_is_no_longer_shown(
    db: Database, clock: Clock
) -> None:
    from holdfast.kernel.messages import user_message

    script = [[say("Half"), hang()], [say("More"), hang()], "Else."]
    async with living(db, script, clock=clock) as life:
        chat_id = await life.begin()
        await anyio.sleep(1)
        await life.do(user.edit, chat_id, 1, user_message("else"))
        await anyio.sleep(1)
        async with life.live.read(chat_id) as reader:
            assert texts(reader.take()) == "More"
            await life.interrupted(chat_id)
            assert isinstance(reader.take()[-1], AttemptReset)
        assert life.live.partial(chat_id) is None
