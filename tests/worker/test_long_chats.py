"""A step costs the same however long the chat is."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from holdfast.chat import files
from holdfast.chat.locked_chat import lock
from holdfast.chat.transitions import user
from holdfast.kernel.messages import Message, Text, user_message
from holdfast.kernel.tool import tool
from holdfast.store.database import Database, Tx
from holdfast.testing import Clock, call, hang, say
from tests.worker.workers import Life, living

NOTICES = 8


@tool(effect="pure")
async def look() -> str:
    return "found"


@tool(effect="once")
async def act() -> str:
    return "acted"


@tool(effect="once", parallel=True)
async def both(seconds: float) -> str:
    await anyio.sleep(seconds)
    return "acted"


async def lengthen(db: Database, chat_id: str, messages: int) -> None:
    """As many questions and answers as it takes."""

    async def change(tx: Tx) -> None:
        locked = await lock(tx, chat_id)
        answer = Message("assistant", (Text("Yes."),), "answer", finish="stop")
        await locked.append([m for _ in range(messages // 2) for m in (user_message("?"), answer)])
        await locked.close()

    await db.write(change)


class Marks:
    """How much had been read whenever the model was asked."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.statements: list[int] = []
        self.life: Life | None = None

    def __call__(self, request: object) -> None:
        assert self.life is not None
        self.rows.append(self.life.faulty_db.rows)
        self.statements.append(self.life.faulty_db.statements)

    @property
    def each(self) -> list[tuple[int, int]]:
        """Rows and statements of each step after the first."""
        rows = [b - a for a, b in zip(self.rows, self.rows[1:], strict=False)]
        statements = [b - a for a, b in zip(self.statements, self.statements[1:], strict=False)]
        return list(zip(rows, statements, strict=True))


@asynccontextmanager
async def long_chat(
    db: Database, clock: Clock, messages: int, script: list[Any], seed: int
) -> AsyncIterator[tuple[Life, str]]:
    tools = [look, act, both]
    async with living(db, ["Hello.", *script], tools, clock=clock, seed=seed) as life:
        chat_id = await life.begin()
        await life.rest(chat_id)
        await lengthen(db, chat_id, messages)
        yield life, chat_id


STEPS: dict[str, Any] = {
    "pure": call("look"),
    "once": call("act"),
    "side by side": [call("both", seconds=1), call("both", seconds=2), call("both", seconds=3)],
}


@pytest.mark.parametrize("kind", STEPS)
async def test_a_step_reads_no_more_of_a_long_chat(db: Database, clock: Clock, kind: str) -> None:
    costs: list[list[tuple[int, int]]] = []
    for seed, messages in enumerate((10, 3000)):
        marks = Marks()
        script = [[marks, STEPS[kind]] for _ in range(4)] + [[marks, say("Done.")]]
        async with long_chat(db, clock, messages, script, seed) as (life, chat_id):
            marks.life = life
            await life.send(chat_id, "go")
            chat = await life.rest(chat_id)
            assert chat.error is None
            costs.append(marks.each)
    short, long = costs
    assert len(short) == len(long) == 4
    for (few_rows, few), (rows, statements) in zip(short, long, strict=True):
        # A notice of its own may come sooner or later, and cost a look at the chat.
        assert abs(rows - few_rows) <= NOTICES
        assert abs(statements - few) <= NOTICES


async def test_each_message_is_looked_through_for_files_once(
    db: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[int] = []
    refs_in = files.refs_in

    def counted(messages: Iterable[Message]) -> set[str]:
        every = list(messages)
        looked_at.append(len(every))
        return refs_in(every)

    monkeypatch.setattr(files, "refs_in", counted)
    script = [[call("look")] for _ in range(20)] + [[say("Done.")]]
    async with long_chat(db, clock, 50, script, 0) as (life, chat_id):
        await life.send(chat_id, "go")
        chat = await life.rest(chat_id)
    assert sum(looked_at) <= chat.messages + 50  # it may have been loaded twice


async def test_a_plain_step_reads_nothing_back(db: Database, clock: Clock) -> None:
    marks = Marks()
    script = [[marks, call("look")] for _ in range(4)] + [[marks, say("Done.")]]
    async with long_chat(db, clock, 10, script, 0) as (life, chat_id):
        marks.life = life
        await life.send(chat_id, "go")
        await life.rest(chat_id)
    # Two commits, and what each of them says came of it; now and then a look for other chats.
    assert min(rows for rows, _ in marks.each) <= 2
    assert max(rows for rows, _ in marks.each) <= 2 + NOTICES


@pytest.mark.parametrize("what", ["title", "steer", "queue", "interrupt"])
async def test_what_people_do_meanwhile_costs_no_more_in_a_long_chat(
    db: Database, clock: Clock, what: str
) -> None:
    costs: list[int] = []
    for seed, messages in enumerate((10, 3000)):
        first = [say("Half"), hang()] if what == "interrupt" else [say("H"), *[[wait(1)]] * 3]
        script: list[Any] = [first, "And."]
        async with long_chat(db, clock, messages, script, seed) as (life, chat_id):
            await life.send(chat_id, "go")
            await anyio.sleep(1.5)
            before = life.faulty_db.rows
            if what == "title":
                await life.do(user.update, chat_id, {"title": "t"})
            elif what == "interrupt":
                await life.do(user.interrupt, chat_id)
            else:
                await life.send(chat_id, "more", what)  # type: ignore[arg-type]
            await life.rest(chat_id)
            costs.append(life.faulty_db.rows - before)
    assert abs(costs[1] - costs[0]) <= NOTICES


def wait(seconds: float) -> Any:
    def wait_now(request: object) -> Any:
        return anyio.sleep(seconds)

    return wait_now
