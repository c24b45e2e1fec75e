"""An agent as a tool in a durable chat: a call spawns one child chat and waits for its answer."""

from __future__ import annotations

from typing import Any

import anyio

from holdfast import Agent, tool
from holdfast.chat import queries
from holdfast.chat.transitions import user
from holdfast.kernel.decide import Approved
from holdfast.kernel.tool import Tool
from holdfast.store.database import Database
from holdfast.testing import Clock, ScriptedModel, call, fail, pause, say
from tests.databases import OpenDatabase
from tests.worker.workers import Life, living, results_of


def researcher(*script: Any, tools: Any = ()) -> Tool:
    agent = Agent(name="researcher", model=ScriptedModel(list(script)), tools=tools)
    return agent.as_tool()


async def children_of(life: Life, chat_id: str) -> list[Any]:
    return await life.db.read(lambda tx: queries.list_chats(tx, parent=chat_id))


async def test_the_answer_of_the_child_chat_is_the_result_of_the_call(
    db: Database, clock: Clock
) -> None:
    script = [[call("researcher", prompt="One?"), call("researcher", prompt="Two?")], "Both."]
    inner = researcher([pause(20), say("A fact.")], [pause(20), say("A fact.")])
    async with living(db, script, [inner], clock=clock) as life:
        chat_id = await life.begin()
        waiting = await life.until(chat_id, lambda chat: chat.status == "requires_action")
        assert waiting.worker_id is None
        before = clock.now()
        await life.rest(chat_id)
        assert clock.now() - before < 30_000_000  # side by side
        history = await life.history(chat_id)
        assert [one.text for one in results_of(history)] == ["A fact.", "A fact."]
        children = await children_of(life, chat_id)
        assert [child.agent for child in children] == ["researcher"] * 2


async def test_a_crash_neither_repeats_nor_loses_the_inner_agent(
    db: Database, open_db: OpenDatabase, clock: Clock
) -> None:
    done: list[str] = []

    @tool
    async def act() -> str:
        """Act once."""
        done.append("acted")
        return "acted"

    script = [call("researcher", prompt="Act."), "Done."]
    first = researcher([call("act")], [say("Half"), pause(100)], tools=[act])
    async with living(db, script, [first], clock=clock) as life:
        chat_id = await life.begin()
        await anyio.sleep(5)
        assert done == ["acted"]
        await life.die()
    second = researcher("It acted.", tools=[act])
    async with living(db, script[1:], [second], clock=clock, seed=1) as life:
        await life.rest(chat_id)
        assert done == ["acted"]
        assert [one.text for one in results_of(await life.history(chat_id))] == ["It acted."]
        assert len(await children_of(life, chat_id)) == 1


async def test_an_approval_of_the_inner_agent_is_asked_in_its_own_chat(
    db: Database, clock: Clock
) -> None:
    @tool(approval="ask")
    async def pay() -> str:
        """Pay."""
        return "paid"

    inner = researcher(call("pay"), "It is paid.", tools=[pay])
    async with living(
        db, [call("researcher", prompt="Pay."), "Done."], [inner], clock=clock
    ) as life:
        chat_id = await life.begin()
        await life.until(chat_id, lambda chat: chat.status == "requires_action")
        (child,) = await children_of(life, chat_id)
        await life.until(child.id, lambda chat: chat.status == "requires_action")
        (row,) = await life.actions(child.id)
        assert row.asked is not None
        await life.do(user.resolve, child.id, {row.call_id: Approved(row.asked.digest)})
        await life.rest(chat_id)
        assert [one.text for one in results_of(await life.history(chat_id))] == ["It is paid."]


async def test_an_inner_agent_that_fails_is_a_failed_call(db: Database, clock: Clock) -> None:
    script = [call("researcher", prompt="?"), "It failed."]
    async with living(db, script, [researcher(fail(kind="auth"))], clock=clock) as life:
        chat_id = await life.begin()
        chat = await life.rest(chat_id)
        assert chat.status == "idle"
        (made,) = results_of(await life.history(chat_id))
        assert made.outcome == "failed"
        assert made.text.startswith("researcher failed:")


async def test_an_interrupt_of_the_parent_interrupts_the_inner_agent(
    db: Database, clock: Clock
) -> None:
    script = [call("researcher", prompt="?")]
    async with living(db, script, [researcher([say("Half"), pause(500)])], clock=clock) as life:
        chat_id = await life.begin()
        await life.until(chat_id, lambda chat: chat.status == "requires_action")
        await anyio.sleep(2)
        await life.interrupted(chat_id)
        (child,) = await children_of(life, chat_id)
        assert (await life.rest(child.id)).status == "idle"
        assert results_of(await life.history(chat_id))[0].outcome == "interrupted"


async def test_agents_inside_each_other_have_the_limit_of_child_chats(
    db: Database, clock: Clock
) -> None:
    inner = Agent(name="a0", model=ScriptedModel(["Deep."]))
    for level in range(1, 4):
        model = ScriptedModel([call(inner.name, prompt="?"), f"Level {level}."])
        inner = Agent(name=f"a{level}", model=model, tools=[inner.as_tool()])
    async with living(db, [call("a3", prompt="?"), "Top."], [inner.as_tool()], clock=clock) as life:
        chat_id = await life.begin()
        chat = await life.rest(chat_id)
        assert chat.status == "idle"
        assert [one.text for one in results_of(await life.history(chat_id))] == ["Level 3."]
