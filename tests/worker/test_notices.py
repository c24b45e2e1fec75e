"""Notices are hints: whatever becomes of them, everything ends the same, a poll later at most."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any, TypeAlias

import anyio
import pytest

from holdfast.chat.transitions import user
from holdfast.kernel.decide import Recorded
from holdfast.kernel.messages import Text, ToolResult, user_message
from holdfast.kernel.tool import tool
from holdfast.store.database import Changed, ChangeNotice, Claimable, Database, NoticesLost
from holdfast.testing import Clock, ScriptedModel, call, fail, hang, pause, say
from tests.worker.workers import SECOND, Life, asks, living

Hear: TypeAlias = Callable[[ChangeNotice], None]
Fate: TypeAlias = Callable[[ChangeNotice, Hear], None]
POLL = 5


def lost(notice: ChangeNotice, hear: Hear) -> None:
    pass


def doubled(notice: ChangeNotice, hear: Hear) -> None:
    hear(notice)
    hear(notice)


def late(notice: ChangeNotice, hear: Hear) -> None:
    asyncio.get_running_loop().call_later(3, hear, notice)


class Shuffled:
    """In any order, and now and then one that says nothing true."""

    def __init__(self) -> None:
        self._random = random.Random(7)

    def __call__(self, notice: ChangeNotice, hear: Hear) -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(self._random.random() * 3, hear, notice)
        if isinstance(notice, Changed):
            others: list[ChangeNotice] = [
                Changed(notice.chat, 1),
                Changed(notice.chat, notice.version + 100),
                Changed("nobody", 3),
                Claimable(notice.chat),
                NoticesLost(),
            ]
            for one in others:
                loop.call_later(self._random.random() * 3, hear, one)


FATES: dict[str, Callable[[], Fate]] = {
    "lost": lambda: lost,
    "doubled": lambda: doubled,
    "late": lambda: late,
    "shuffled": Shuffled,
}
EVERY = pytest.mark.parametrize("fate", FATES)


@tool(effect="pure")
async def look() -> str:
    await anyio.sleep(30)
    return "found"


@tool(effect="once")
async def act() -> str:
    await anyio.sleep(1)
    return "acted"


async def within_a_poll(life: Life, chat_id: str, clock: Clock, extra: float = 0) -> None:
    before = clock.now()
    await life.rest(chat_id)
    assert clock.now() - before <= (POLL + 1 + extra) * SECOND


@EVERY
async def test_a_turn_with_tools_is_the_same(db: Database, clock: Clock, fate: str) -> None:
    script = [call("act"), [call("act"), call("act")], "Done."]
    async with living(db, script, [act], clock=clock) as life:
        life.faulty_db.notices = FATES[fate]()
        chat_id = await life.begin()
        await within_a_poll(life, chat_id, clock, extra=4)
        assert await life.lines(chat_id) == [
            "prompt: ?",
            "answer: →act",
            "results: ok acted",
            "answer: →act →act",
            "results: ok acted ok acted",
            "answer: Done.",
        ]
        assert await life.journal(chat_id) == {}


@EVERY
async def test_stopping_is_the_same(db: Database, clock: Clock, fate: str) -> None:
    async with living(db, [[say("Half"), hang()], call("look")], [look], clock=clock) as life:
        life.faulty_db.notices = FATES[fate]()
        chat_id = await life.begin()
        await anyio.sleep(7)
        await life.do(user.interrupt, chat_id)
        await within_a_poll(life, chat_id, clock)
        assert (await life.lines(chat_id))[1] == "answer: Half"
        await life.send(chat_id, "look")
        await anyio.sleep(7)
        await life.do(user.interrupt, chat_id)
        await within_a_poll(life, chat_id, clock)
        assert "results: interrupted Interrupted by the user." in await life.lines(chat_id)


@EVERY
async def test_steering_is_the_same(db: Database, clock: Clock, fate: str) -> None:
    async with living(db, [call("look"), "I see."], [look], clock=clock) as life:
        life.faulty_db.notices = FATES[fate]()
        chat_id = await life.begin()
        await anyio.sleep(7)
        await life.send(chat_id, "enough", "steer")
        await within_a_poll(life, chat_id, clock)
        assert (await life.lines(chat_id))[-2:] == ["prompt: enough", "answer: I see."]


@EVERY
async def test_editing_is_the_same(db: Database, clock: Clock, fate: str) -> None:
    async with living(db, [[hang()], "Else."], clock=clock) as life:
        life.faulty_db.notices = FATES[fate]()
        chat_id = await life.begin()
        await anyio.sleep(7)
        await life.do(user.edit, chat_id, 1, user_message("else"))
        await within_a_poll(life, chat_id, clock)
        assert await life.lines(chat_id) == ["prompt: else", "answer: Else."]


@EVERY
async def test_answering_an_action_is_the_same(db: Database, clock: Clock, fate: str) -> None:
    async with living(db, [call("asks"), "Thanks."], [asks], clock=clock) as life:
        life.faulty_db.notices = FATES[fate]()
        chat_id = await life.begin()
        await life.until(chat_id, lambda chat: chat.status == "requires_action")
        result = ToolResult("call_1", "asks", (Text("here"),))
        await life.do(user.resolve, chat_id, {"call_1": Recorded(result)})
        await within_a_poll(life, chat_id, clock)
        assert (await life.lines(chat_id))[2:] == ["results: ok here", "answer: Thanks."]


@EVERY
async def test_what_is_queued_is_the_same(db: Database, clock: Clock, fate: str) -> None:
    script = [[pause(2), "One."], [pause(2), "Two."], "Three."]
    async with living(db, script, clock=clock) as life:
        life.faulty_db.notices = FATES[fate]()
        chat_id = await life.begin("1")
        await life.send(chat_id, "2")
        await life.send(chat_id, "3")
        await within_a_poll(life, chat_id, clock, extra=4)
        assert [line for line in await life.lines(chat_id) if line.startswith("answer")] == [
            "answer: One.",
            "answer: Two.",
            "answer: Three.",
        ]


@EVERY
async def test_a_wait_for_the_next_attempt_is_the_same(
    db: Database, clock: Clock, fate: str
) -> None:
    script: list[Any] = [fail(kind="rate_limit", retry_after=20), "Now."]
    async with living(db, script, clock=clock) as life:
        life.faulty_db.notices = FATES[fate]()
        chat_id = await life.begin()
        await life.until(chat_id, lambda chat: chat.retry is not None)
        await life.send(chat_id, "hurry", "steer")
        await within_a_poll(life, chat_id, clock)
        assert await life.lines(chat_id) == ["prompt: ?", "prompt: hurry", "answer: Now."]


async def test_a_chat_that_nobody_says_anything_about_is_found(db: Database, clock: Clock) -> None:
    """Also one whose wait belongs to nobody, when it is over."""
    model = ScriptedModel([fail(kind="rate_limit", retry_after=100), "Found."])
    async with living(db, model, clock=clock) as life:
        life.faulty_db.notices = lost
        chat_id = await life.begin()
        before = clock.now()
        await life.rest(chat_id)
        assert clock.now() - before <= (100 + 2 * POLL + 1) * SECOND


async def test_what_a_worker_writes_itself_is_no_news_to_it(db: Database, clock: Clock) -> None:
    """A hundred notices of its own steps, and it reads nothing because of them."""
    script = [*[call("quick")] * 20, "Done."]

    @tool(effect="pure")
    async def quick() -> str:
        return "quick"

    reads: list[int] = []
    for fate in (lost, doubled):
        async with living(db, script, [quick], clock=clock, seed=len(reads)) as life:
            life.faulty_db.notices = fate
            chat_id = await life.begin()
            await life.rest(chat_id)
            reads.append(life.faulty_db.statements)
    assert reads[1] <= reads[0] + 10
